#include "runtime/base/Json.h"

#include "tests/unit/base/TempFolder.h"

using namespace m3c;
using test::expectError;

TEST(Json, ReadsEveryKindOfValue) {
  nlohmann::json value = parseJson(R"( {"a": [1, -2, 2.5, "x", true, null, {}], "b": "é"} )", "f");
  EXPECT_EQ(value.dump(), R"({"a":[1,-2,2.5,"x",true,null,{}],"b":"é"})");
}

TEST(Json, KeepsWide64BitIntegers) {
  EXPECT_EQ(parseJson("18446744073709551615", "f").get<uint64_t>(), UINT64_MAX);
  EXPECT_TRUE(parseJson("18446744073709551616", "f").is_number_float());
}

TEST(Json, RefusesADuplicateKeyWithBothValues) {
  expectError([] { parseJson(R"({"x":{"a":1,"b":0,"a":2}})", "f.json"); },
              {"f.json", "duplicate", "\"x.a\"", "as 1 and as 2"});
}

TEST(Json, SameKeyInTwoObjectsIsNoDuplicate) {
  EXPECT_EQ(parseJson(R"([{"a":1},{"a":2}])", "f").size(), 2u);
}

TEST(Json, NamesThePositionOfAnError) {
  // The comma is byte 9 of the text; 8 bytes stand before the text in its file.
  expectError([] { parseJson(R"({"ab": 1,,})", "f", {.whatIsRead = "header"}, 8); },
              {"header is not acceptable JSON", "at byte 17"});
}

TEST(Json, RefusesTextThatEndsEarlyOrGoesOn) {
  expectError([] { parseJson("{\"a\": [", "f"); }, {"at byte 7", "unexpected end"});
  expectError([] { parseJson("", "f"); }, {"at byte 0"});
  expectError([] { parseJson("{} {}", "f"); }, {"at byte 3"});
  expectError([] { parseJson(std::string_view("{}\0", 3), "f"); }, {"at byte 2"});
}

TEST(Json, RefusesBytesThatAreNotUtf8AndShowsThemEscaped) {
  std::string message = test::errorOf([] { parseJson("{\"k\xff\": 1}", "f"); });
  EXPECT_NE(message.find("UTF-8"), message.npos);
  EXPECT_NE(message.find("\\xff"), message.npos);
  EXPECT_EQ(message.find('\xff'), message.npos);
}

TEST(Json, BoundsDepthAndCount) {
  std::string deep = std::string(65, '[') + std::string(65, ']');
  expectError([&] { parseJson(deep, "f"); }, {"deeper than 64"});
  EXPECT_NO_THROW(parseJson(deep.substr(1, 128), "f"));
  // One list and 9 numbers are 10 values.
  expectError([] { parseJson("[1,2,3,4,5,6,7,8,9]", "f", {.values = 9}); }, {"more than 9"});
  EXPECT_NO_THROW(parseJson("[1,2,3,4,5,6,7,8,9]", "f", {.values = 10}));
}

TEST(Json, BoundsTheTextItself) {
  expectError([] { parseJson("[1, 2]", "f", {.bytes = 5}); }, {"6 bytes", "at most 5"});
  EXPECT_NO_THROW(parseJson("[1,2]", "f", {.bytes = 5}));
}

TEST(Json, MillionOpenBracketsDoNotOverflowTheStack) {
  expectError([] { parseJson(std::string(1'000'000, '['), "f"); }, {"deeper"});
}

TEST(Json, TextForMessagesIsPrintableAndShort) {
  EXPECT_EQ(printable("a\n\x1b[31m"), "a\\x0a\\x1b[31m");
  EXPECT_EQ(printable(std::string(300, 'x'), 10), "xxxxxxxxxx…");
  EXPECT_EQ(jsonText(nlohmann::json::array({1, "\n"})), R"([1,"\n"])");
  EXPECT_EQ(jsonText(nlohmann::json(std::vector<int>(17, 1))), "a list with 17 entries");
  EXPECT_EQ(jsonKind(nlohmann::json(nullptr)), "null");
  EXPECT_EQ(jsonKind(nlohmann::json(1.5)), "a floating-point number");
  EXPECT_EQ(jsonKind(nlohmann::json(true)), "a truth value");
}
