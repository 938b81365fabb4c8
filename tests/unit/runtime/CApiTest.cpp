// The C interface over the toy model: results, misuse, messages, lifetimes; and the C++ interface.
#include "runtime/capi/m3c.hpp"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

using namespace m3c;

namespace {

class CApi : public testing::Test {
protected:
  std::string path;
  m3c_plan *plan = nullptr;

  void SetUp() override {
    path = (std::filesystem::path(testing::TempDir()) / "capi.m3plan").string();
    test::toyPlan().publish(path);
    ASSERT_EQ(m3c_plan_open(path.c_str(), nullptr, &plan), M3C_OK) << m3c_last_error();
  }
  void TearDown() override { m3c_plan_release(plan); }

  m3c_session *session(uint32_t sequences = 1) {
    if (m3c_plan_bind_weights(plan, "synthetic:1", nullptr, nullptr) != M3C_OK)
      ADD_FAILURE() << m3c_last_error();
    m3c_session_options options = M3C_SESSION_OPTIONS_INIT;
    options.max_sequences = sequences;
    m3c_session *made = nullptr;
    EXPECT_EQ(m3c_session_create(plan, &options, &made), M3C_OK) << m3c_last_error();
    return made;
  }
};

bool says(const std::string &part) {
  return std::string(m3c_last_error()).find(part) != std::string::npos;
}

} // namespace

TEST_F(CApi, DecodingInOneStepEqualsPrefill) {
  m3c_session *made = session(2);
  uint32_t a = 0, b = 0, c = 0;
  ASSERT_EQ(m3c_sequence_create(made, &a), M3C_OK);
  ASSERT_EQ(m3c_sequence_create(made, &b), M3C_OK);
  EXPECT_EQ(m3c_sequence_create(made, &c), M3C_FAILED);
  std::vector<int32_t> text = {4, 8, 15, 16, 23, 42};
  std::vector<float> whole(test::toyVocab), both(2 * test::toyVocab);
  ASSERT_EQ(m3c_prefill(made, a, text.data(), 5, nullptr), M3C_OK);
  ASSERT_EQ(m3c_prefill(made, b, text.data(), 2, nullptr), M3C_OK);
  uint32_t sequences[] = {a, b};
  int32_t tokens[] = {42, 15};
  ASSERT_EQ(m3c_decode(made, sequences, tokens, 2, both.data()), M3C_OK) << m3c_last_error();
  uint64_t length = 0;
  ASSERT_EQ(m3c_sequence_length(made, a, &length), M3C_OK);
  EXPECT_EQ(length, 6u);
  ASSERT_EQ(m3c_sequence_release(made, a), M3C_OK);
  ASSERT_EQ(m3c_sequence_create(made, &c), M3C_OK);
  ASSERT_EQ(m3c_prefill(made, c, text.data(), 6, whole.data()), M3C_OK);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), both.begin()));
  ASSERT_EQ(m3c_sequence_release(made, c), M3C_OK);
  ASSERT_EQ(m3c_sequence_create(made, &c), M3C_OK);
  ASSERT_EQ(m3c_prefill(made, c, text.data(), 3, whole.data()), M3C_OK);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), both.begin() + test::toyVocab));
  m3c_session_release(made);
}

TEST_F(CApi, ASessionOutlivesItsPlan) {
  m3c_session *made = session();
  m3c_plan_release(std::exchange(plan, nullptr));
  uint32_t id = 0;
  ASSERT_EQ(m3c_sequence_create(made, &id), M3C_OK);
  int32_t token = 3;
  EXPECT_EQ(m3c_prefill(made, id, &token, 1, nullptr), M3C_OK);
  m3c_session_release(made);
}

TEST_F(CApi, MisuseIsAStatus) {
  m3c_session *none = nullptr;
  EXPECT_EQ(m3c_plan_open(nullptr, nullptr, &plan), M3C_MISUSED);
  EXPECT_TRUE(says("m3c_plan_open"));
  EXPECT_EQ(m3c_session_create(plan, nullptr, nullptr), M3C_MISUSED);
  EXPECT_EQ(m3c_session_create(plan, nullptr, &none), M3C_FAILED); // no weights
  EXPECT_EQ(none, nullptr);
  m3c_plan *other = reinterpret_cast<m3c_plan *>(1);
  EXPECT_EQ(m3c_plan_open("/no/such.m3plan", nullptr, &other), M3C_FAILED);
  EXPECT_EQ(other, nullptr);
  EXPECT_TRUE(says("/no/such.m3plan"));
  EXPECT_EQ(m3c_plan_bind_weights(plan, "synthetic:x", nullptr, nullptr), M3C_MISUSED);
  EXPECT_EQ(m3c_plan_bind_weights(plan, "/no/folder", nullptr, nullptr), M3C_FAILED);

  m3c_session *made = session();
  EXPECT_STREQ(m3c_last_error(), "");
  EXPECT_EQ(m3c_plan_bind_weights(plan, "synthetic:1", nullptr, nullptr), M3C_MISUSED);
  m3c_session_options endless = M3C_SESSION_OPTIONS_INIT;
  endless.max_tokens = uint64_t(1) << 40;
  EXPECT_EQ(m3c_session_create(plan, &endless, &none), M3C_FAILED);
  EXPECT_TRUE(says("positions"));
  int32_t token = 999;
  uint32_t id = 0;
  ASSERT_EQ(m3c_sequence_create(made, &id), M3C_OK);
  EXPECT_EQ(m3c_prefill(made, id, &token, 1, nullptr), M3C_FAILED);
  EXPECT_TRUE(says("999"));
  EXPECT_EQ(m3c_prefill(made, id, &token, 0, nullptr), M3C_MISUSED);
  EXPECT_EQ(m3c_prefill(made, 7, &token, 1, nullptr), M3C_FAILED);
  EXPECT_EQ(m3c_sequence_release(made, 7), M3C_FAILED);
  m3c_session_release(made);
  m3c_session_release(nullptr);
  m3c_plan_release(nullptr);
}

TEST_F(CApi, MessagesBelongToTheirThread) {
  m3c_plan *none = nullptr;
  EXPECT_EQ(m3c_plan_open("/no/such.m3plan", nullptr, &none), M3C_FAILED);
  std::thread([] { EXPECT_STREQ(m3c_last_error(), ""); }).join();
  EXPECT_TRUE(says("no/such"));
}

TEST_F(CApi, StructsOfOtherVersions) {
  m3c_session *made = nullptr;
  m3c_session_options options = M3C_SESSION_OPTIONS_INIT;
  options.struct_size = 8;
  EXPECT_EQ(m3c_session_create(plan, &options, &made), M3C_MISUSED);
  struct {
    m3c_open_options known = M3C_OPEN_OPTIONS_INIT;
    uint64_t later = 0;
  } newer;
  newer.known.struct_size = sizeof(newer);
  m3c_plan *other = nullptr;
  EXPECT_EQ(m3c_plan_open(path.c_str(), &newer.known, &other), M3C_OK);
  m3c_plan_release(other);
  newer.later = 1;
  EXPECT_EQ(m3c_plan_open(path.c_str(), &newer.known, &other), M3C_MISUSED);

  newer.known.struct_size = SIZE_MAX; // not set: nothing beyond the struct may be read
  newer.later = 0;
  EXPECT_EQ(m3c_plan_open(path.c_str(), &newer.known, &other), M3C_MISUSED);
  EXPECT_TRUE(says("no struct is as large"));

  m3c_model_info info;
  std::memset(&info, 0x7e, sizeof(info));
  info.struct_size = offsetof(m3c_model_info, max_positions); // an older caller
  ASSERT_EQ(m3c_plan_info(plan, &info), M3C_OK);
  EXPECT_EQ(info.vocab, test::toyVocab);
  EXPECT_EQ(info.max_positions, 0x7e7e7e7e7e7e7e7eu); // not touched
}

TEST_F(CApi, SamplingChecksItsParameters) {
  std::vector<float> logits = {0, 3, 1};
  int32_t token = 0;
  double logProbability = 0;
  ASSERT_EQ(m3c_sample(logits.data(), 3, nullptr, 0, &token, &logProbability), M3C_OK);
  EXPECT_EQ(token, 1);
  EXPECT_LT(logProbability, 0);
  m3c_sampling sampling = M3C_SAMPLING_INIT;
  sampling.temperature = -1;
  EXPECT_NE(m3c_sample(logits.data(), 3, &sampling, 0, &token, nullptr), M3C_OK);
  EXPECT_TRUE(says("temperature"));
}

TEST(CppApi, RunsAndThrows) {
  std::string path = (std::filesystem::path(testing::TempDir()) / "cppapi.m3plan").string();
  test::toyPlan().publish(path);
  api::Plan plan(path);
  EXPECT_EQ(plan.info().vocab, test::toyVocab);
  uint64_t seen = 0;
  plan.bindWeights("synthetic:3", [&](uint64_t done, uint64_t, std::string_view) { seen = done; });
  EXPECT_EQ(seen, test::toyVocab * 4u);
  api::Session session(plan);
  uint32_t id = session.createSequence();
  std::vector<int32_t> text = {1, 2, 3};
  std::vector<float> logits = session.prefill(id, text), next;
  int32_t token = api::sample(logits, M3C_SAMPLING_INIT, 3);
  session.decode({&id, 1}, {&token, 1}, next);
  EXPECT_EQ(next.size(), test::toyVocab);
  EXPECT_EQ(session.length(id), 4u);
  session.releaseSequence(id);
  try {
    api::Plan missing("/no/such.m3plan");
    FAIL();
  } catch (const api::Failure &failure) {
    EXPECT_EQ(failure.status(), M3C_FAILED);
    EXPECT_NE(std::string(failure.what()).find("no/such"), std::string::npos);
  }
}
