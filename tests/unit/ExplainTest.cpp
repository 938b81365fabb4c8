// What `m3c explain` says of kernels.
#include "compiler/report/PlanReport.h"

#include <gtest/gtest.h>

using namespace m3c;

TEST(Explain, SaysHowAttentionIsSharedOut) {
  auto textOf = [](const char *family, const char *schedule) {
    return explainText({{"decisions", nlohmann::ordered_json::array()},
                        {"kernels",
                         {{{"name", "k"},
                           {"family", family},
                           {"schedule", schedule},
                           {"objects", nlohmann::ordered_json::array()},
                           {"uses", nlohmann::ordered_json::array()}}}}});
  };
  std::string both =
      textOf("attention", "one: consumers = 8, flat = 1, parts = 66; two: parts = 1");
  EXPECT_NE(both.find("shared out on one: the pages of all rows of a KV head, end to end, in 66 "
                      "equal stretches\n"),
            std::string::npos)
      << both;
  EXPECT_NE(both.find("shared out on two: the pages of each row of a KV head in 1 part\n"),
            std::string::npos)
      << both;
  std::string shared = textOf("attention", "one: parts = 2, shared_rows = 8");
  EXPECT_NE(
      shared.find("shared out on one: the pages that 8 rows chose, each once, of a KV head in "
                  "2 parts\n"),
      std::string::npos)
      << shared;
  EXPECT_EQ(textOf("attention", "one: ring = 1, rows = 8").find("shared out"), std::string::npos);
  EXPECT_EQ(textOf("index_score", "one: parts = 66").find("shared out"), std::string::npos);
}
