#include "runtime/base/Progress.h"
#include "runtime/base/Log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace m3c;

TEST(Progress, PlainLinesNameStageTimeAndMemory) {
  testing::internal::CaptureStderr();
  {
    Progress progress(ProgressMode::Plain);
    progress.stage("reading", 10);
    progress.update(5, "shard one"); // too soon for a line
    progress.stage("writing");
    progress.finish();
    progress.finish(); // no stage is open
  }
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("reading: done in"), text.npos);
  EXPECT_NE(text.find("writing: done in"), text.npos);
  EXPECT_NE(text.find("peak memory"), text.npos);
  EXPECT_EQ(text.find('\r'), text.npos);
}

TEST(Progress, AStageThatAnErrorEndsIsNotCalledDone) {
  testing::internal::CaptureStderr();
  {
    Progress progress(ProgressMode::Plain);
    progress.stage("reading", 10);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, JsonLinesParse) {
  testing::internal::CaptureStderr();
  {
    Progress progress(ProgressMode::Json);
    progress.stage("reading", 10);
    progress.update(10);
    progress.finish();
  }
  auto line = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(line["stage"], "reading");
  EXPECT_EQ(line["done"], 10);
  EXPECT_EQ(line["finished"], true);
  EXPECT_GT(line["peak_memory_bytes"], 0);
}

TEST(Progress, SilentSaysNothing) {
  testing::internal::CaptureStderr();
  {
    Progress progress(ProgressMode::Silent);
    progress.stage("reading");
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, Texts) {
  EXPECT_EQ(byteText(0), "0 bytes");
  EXPECT_EQ(byteText(1023), "1023 bytes");
  EXPECT_EQ(byteText(1536), "1.5 KiB");
  EXPECT_EQ(byteText(uint64_t(3) << 40), "3.0 TiB");
  EXPECT_EQ(parseProgressMode("json"), ProgressMode::Json);
  EXPECT_EQ(parseProgressMode("loud"), std::nullopt);
}

TEST(Log, LinesBelowTheLevelAreDropped) {
  log::setLevel(log::Level::Warning);
  EXPECT_FALSE(log::enabled(log::Level::Info));
  EXPECT_TRUE(log::enabled(log::Level::Warning));
  testing::internal::CaptureStderr();
  log::info("not {}", "shown");
  log::warning("shown {}", 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: shown 1\n");
  log::setLevel(log::Level::Info);
}
