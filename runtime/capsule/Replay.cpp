#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/capsule/Capsule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

namespace m3c {

namespace {

void checkDevice(const Capsule &capsule, const hal::Device &device) {
  if (capsule.code.empty())
    throw Error(fmt::format("the capsule of {} has no code", capsule.kernel), capsule.kernel,
                "it was made without the chip's compiler",
                fmt::format("replay it with --emulate {}", capsule.target));
  std::vector<std::string> missing;
  for (const std::string &feature : capsule.features)
    if (!device.info().supports(feature))
      missing.push_back(feature);
  if (!missing.empty())
    throw Error(fmt::format("{} cannot run the capsule of {}", device.info().name, capsule.kernel),
                capsule.kernel,
                fmt::format("its code is for {}, the device lacks {}", capsule.chip,
                            fmt::join(missing, ", ")),
                fmt::format("take a machine that has it, or --emulate {}", capsule.target));
}

CapsuleOutcome compare(const CapsuleArgument &argument, const std::vector<std::byte> &found) {
  const std::vector<std::byte> &expected = *argument.expected;
  size_t size = elementBytes(argument.element);
  CapsuleOutcome outcome{argument.name, expected.size() / size, 0, 0, argument.tolerance};
  for (size_t i = 0; i < outcome.elements; ++i) {
    if (std::memcmp(&expected[i * size], &found[i * size], size) == 0)
      continue;
    ++outcome.different;
    double difference = INFINITY; // other bytes
    if (argument.element != CapsuleArgument::Element::Bytes)
      difference = std::fabs(capsuleValue(&expected[i * size], argument.element) -
                             capsuleValue(&found[i * size], argument.element));
    outcome.worst = std::max(outcome.worst, std::isnan(difference) ? INFINITY : difference);
  }
  return outcome;
}

} // namespace

double capsuleValue(const std::byte *bytes, CapsuleArgument::Element element) {
  if (element == CapsuleArgument::Element::F32) {
    float value;
    std::memcpy(&value, bytes, 4);
    return value;
  }
  uint16_t code;
  std::memcpy(&code, bytes, 2);
  return formats::bf16ToFloat(code);
}

size_t elementBytes(CapsuleArgument::Element element) {
  using Element = CapsuleArgument::Element;
  return element == Element::F32 ? 4 : element == Element::Bf16 ? 2 : 1;
}

/// The bytes of a buffer that a capsule has.
template <typename Visit> static void eachPart(const CapsuleArgument &argument, Visit visit) {
  visitParts(argument.parts, {0, argument.input.size()}, visit);
}

std::vector<CapsuleOutcome> replayCapsule(const Capsule &capsule, hal::Device &device,
                                          bool fromSource) {
  if (!fromSource)
    checkDevice(capsule, device);
  else if (capsule.source.text.empty())
    throw Error(fmt::format("the capsule of {} has no source", capsule.kernel), capsule.kernel,
                "it was made from a plan without sources",
                "compile with --keep-sources and make it again, or replay its code");
  std::vector<std::byte> built;
  if (fromSource)
    built = device.build(capsule.source, capsule.kernel);
  std::unique_ptr<hal::Module> module =
      device.load(fromSource ? built : capsule.code, capsule.kernel);
  std::unique_ptr<hal::Kernel> kernel = module->kernel(capsule.kernel, capsule.shape);
  std::unique_ptr<hal::Stream> stream = device.createStream();
  std::vector<std::unique_ptr<hal::Buffer>> buffers(capsule.arguments.size());
  std::vector<uint64_t> values;
  for (size_t i = 0; i < capsule.arguments.size(); ++i) {
    const CapsuleArgument &argument = capsule.arguments[i];
    size_t from = argument.same.value_or(i);
    if (argument.isBuffer && !argument.same) {
      buffers[i] = device.allocate(argument.bufferBytes(), hal::MemoryKind::Device, argument.name);
      if (!argument.parts.empty())
        stream->fill(*buffers[i], 0, argument.size, 0xff);
      eachPart(argument, [&](uint64_t place, uint64_t at, uint64_t bytes) {
        stream->write(*buffers[i], place, std::span(argument.input).subspan(at, bytes));
      });
    }
    values.push_back(argument.value + (argument.isBuffer ? buffers[from]->address() : 0));
  }
  stream->launch(*kernel, capsule.grid, values, capsule.label);
  stream->synchronize();
  std::vector<CapsuleOutcome> outcomes;
  for (size_t i = 0; i < capsule.arguments.size(); ++i) {
    const CapsuleArgument &argument = capsule.arguments[i];
    if (!argument.expected)
      continue;
    std::vector<std::byte> found(argument.input.size());
    eachPart(argument, [&](uint64_t place, uint64_t at, uint64_t bytes) {
      stream->read(*buffers[i], place, std::span(found).subspan(at, bytes));
    });
    outcomes.push_back(compare(argument, found));
  }
  return outcomes;
}

} // namespace m3c
