// Any bytes as a plan. The first byte chooses: 0 = the rest is a file; otherwise the rest is a
// tables section, put into a container whose digests are right. What opens is verified and run for
// a step on the null device, which must end well or with an Error.
#include "runtime/base/Error.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/plan/PlanWriter.h"
#include "runtime/schedule/Session.h"

#include <cstring>

namespace {

using namespace m3c;

class ZeroSource final : public WeightSource {
public:
  void check(const plan::WeightPiece &) const override {}
  void read(const plan::WeightPiece &, uint64_t, std::span<std::byte> to) const override {
    std::fill(to.begin(), to.end(), std::byte(0));
  }
};

plan::PlanFile planOf(std::span<const std::byte> bytes) {
  std::span<const std::byte> rest = bytes.subspan(1);
  if (bytes[0] == std::byte(0))
    return plan::PlanFile::fromBytes({rest.begin(), rest.end()}, "fuzz.m3plan");
  plan::PlanWriter writer;
  writer.addSection(plan::SectionKind::Code, "toy_insert toy_taps toy_logits");
  writer.addSection(plan::SectionKind::Source, "text");
  writer.addSection(plan::SectionKind::Extra, "text");
  writer.setTables(rest);
  writer.setManifest("{}");
  return plan::PlanFile::fromBytes(writer.bytes(), "fuzz.m3plan");
}

void runOneStep(plan::PlanFile plan) {
  Engine engine(std::move(plan),
                std::make_unique<hal::NullDevice>(std::vector<std::string>{"a"}, 16 << 20));
  engine.bindWeights(ZeroSource());
  Session session(engine, {.pages = 3, .maxSequences = 2});
  SequenceId sequence = session.create();
  int32_t tokens[] = {0, 0, 0};
  Append append = {sequence, tokens, Want::All};
  session.run({&append, 1}, nullptr, [](const TraceRow &) {});
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  try {
    plan::PlanFile plan = planOf(std::as_bytes(std::span(data, size)));
    plan.verify();
    runOneStep(std::move(plan));
  } catch (const Error &) {
  }
  return 0;
}
