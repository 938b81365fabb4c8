// Numeric options take what they can hold and nothing else.
#include "tools/common/Numbers.h"

#include <gtest/gtest.h>

#include <optional>

namespace {

struct Options {
  uint64_t seed = 0;
  uint32_t count = 0;
  std::optional<uint32_t> top;
  int64_t offset = 0;
  std::vector<int32_t> ids;
  std::string promptIds;
  std::optional<double> share;
  double bounded = 0, heat = 0;
  std::string name, mode;
  uint32_t whole = 0;
};

/// What the parser says, or "" when it takes the line.
std::string parse(const std::string &line, Options &options) {
  CLI::App app;
  app.add_option("--seed", options.seed);
  app.add_option("--count", options.count)->check(m3c::atLeastOne());
  app.add_option("--top", options.top);
  app.add_option("--offset", options.offset);
  app.add_option("--ids", options.ids)->delimiter(',');
  app.add_option("--prompt-ids", options.promptIds)->check(m3c::tokenIds());
  app.add_option("--share", options.share);
  app.add_option("--bounded", options.bounded)->check(m3c::within(0.01, 1.0));
  app.add_option("--heat", options.heat)->check(m3c::zeroOrMore());
  app.add_option("--name", options.name);
  app.add_option("--whole", options.whole)->check(m3c::within(int64_t(2), int64_t(9)));
  app.add_option("--mode", options.mode)->check(m3c::oneOf({"plain", "json"}));
  m3c::checkNumbers(app);
  try {
    app.parse(line);
  } catch (const CLI::ParseError &error) {
    return error.what();
  }
  return "";
}

TEST(Numbers, WhatDoesNotFitIsRefusedByName) {
  for (const char *line : {"--seed -3",
                           "--seed=-3",
                           "--seed 18446744073709551616",
                           "--seed 1e3",
                           "--seed 0x10",
                           "--seed 010",
                           "--seed 1.5",
                           "--seed abc",
                           "--seed=",
                           "--count 4294967296",
                           "--count -1",
                           "--count 0",
                           "--top -1",
                           "--top 4294967296",
                           "--offset 9223372036854775808",
                           "--offset -9223372036854775809",
                           "--ids 1,2147483648",
                           "--ids 1,x",
                           "--prompt-ids=",
                           "--prompt-ids 1,,2",
                           "--prompt-ids 1,2,",
                           "--prompt-ids ,1",
                           "--prompt-ids 1,2147483648",
                           "--prompt-ids 01",
                           "--prompt-ids 1.5",
                           "--share nan",
                           "--share inf",
                           "--share 1e999",
                           "--share 0x1p3",
                           "--share 1,5",
                           "--bounded nan",
                           "--bounded 2",
                           "--bounded 0.001",
                           "--whole 1",
                           "--whole 10",
                           "--whole 2.5",
                           "--mode jso",
                           "--heat -0.5",
                           "--heat nan"}) {
    Options options;
    std::string message = parse(line, options), name(line);
    EXPECT_NE(message.find(name.substr(0, name.find_first_of(" ="))), std::string::npos)
        << line << " gave: " << message;
  }
}

TEST(Numbers, RangesAreToldInWords) {
  Options options;
  EXPECT_EQ(parse("--bounded 2", options), "--bounded: 2 is not from 0.01 to 1");
  EXPECT_EQ(parse("--whole 10", options), "--whole: 10 is not from 2 to 9");
  EXPECT_EQ(parse("--mode x", options), "--mode: 'x' is none of plain, json");
  for (const char *line : {"--whole 2", "--whole 9", "--bounded 0.01", "--mode json"})
    EXPECT_EQ(parse(line, options), "") << line;
}

TEST(Numbers, WhatFitsIsTakenExactly) {
  Options options;
  EXPECT_EQ(
      parse("--seed 18446744073709551615 --count 4294967295 --top 0 --offset "
            "-9223372036854775808 --ids 0,-1,2147483647 --share -1.5e-3 --bounded 1 --heat 0.5 "
            "--name 010",
            options),
      "");
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.count, UINT32_MAX);
  EXPECT_EQ(options.top, 0u);
  EXPECT_EQ(options.offset, INT64_MIN);
  EXPECT_EQ(options.ids, (std::vector<int32_t>{0, -1, INT32_MAX}));
  EXPECT_EQ(options.share, -1.5e-3);
  EXPECT_EQ(options.name, "010");
}

TEST(Numbers, TokenIdsAreTakenApart) {
  EXPECT_EQ(m3c::readTokenIds("7"), (std::vector<int32_t>{7}));
  EXPECT_EQ(m3c::readTokenIds("0,-1,2147483647"), (std::vector<int32_t>{0, -1, INT32_MAX}));
}

} // namespace
