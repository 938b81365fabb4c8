#include "runtime/weights/DeviceMaker.h"

#include "runtime/plan/List.h"

#include <bit>

namespace m3c {

namespace {

/// Where the elements of `piece` go in a buffer, and by how many bytes they begin later.
madeup::Placement placementOf(const plan::WeightBuffer &buffer, const plan::WeightPiece &piece) {
  madeup::Placement place;
  place.bits = buffer.bits();
  place.abreast = buffer.abreast();
  place.rowBytes = storedBytes(piece);
  switch (buffer.recipe()) {
  case plan::Recipe::Raw:
    return place;
  case plan::Recipe::Reciprocal:
    place.inverted = 1;
    [[fallthrough]];
  case plan::Recipe::ToF32:
  case plan::Recipe::Scalar:
    place.layout = madeup::Widened;
    return place;
  case plan::Recipe::PanelWords:
    place.layout = madeup::PanelWords;
    break;
  case plan::Recipe::PanelScales:
    place.layout = madeup::PanelBytes;
    break;
  case plan::Recipe::FragmentWords:
    place.layout = madeup::FragmentWords;
    break;
  case plan::Recipe::FragmentScales:
    place.layout = madeup::FragmentBytes;
    break;
  }
  place.rows = uint64_t(piece.shape()->Get(0));
  place.rowBytes = storedBytes(piece) / place.rows;
  place.firstPanel = piece.first_panel();
  place.panelStep = piece.panel_step();
  return place;
}

} // namespace

std::unique_ptr<DeviceMaker> DeviceMaker::create(hal::Device &device) {
  auto maker = std::make_unique<DeviceMaker>();
  maker->module = device.ownKernels();
  if (!maker->module)
    return nullptr;
  maker->kernel =
      maker->module->kernel("made_up", {madeup::parameterCount, 0, madeup::threadsOfBlock});
  maker->stream = device.createStream();
  return maker;
}

void DeviceMaker::make(hal::Buffer &memory, uint64_t offset, const plan::WeightBuffer &buffer,
                       const plan::WeightPiece &piece, const madeup::Values &values) {
  madeup::Placement place = placementOf(buffer, piece);
  bool hasPlace = place.layout == madeup::Flat || place.layout == madeup::Widened;
  uint64_t items = madeup::itemsOf(values, place);
  uint64_t blocks = (items + madeup::itemsOfBlock - 1) / madeup::itemsOfBlock;
  uint64_t parameters[] = {memory.address() + offset + (hasPlace ? piece.dest_offset() : 0),
                           values.base,
                           values.rule,
                           values.low,
                           values.range,
                           values.withSign,
                           std::bit_cast<uint32_t>(values.scale),
                           place.layout,
                           place.bits,
                           place.inverted,
                           place.abreast,
                           place.rows,
                           place.rowBytes,
                           place.firstPanel,
                           place.panelStep,
                           items};
  stream->launch(*kernel, {uint32_t(blocks), 1, 1}, parameters, piece.tensor()->string_view());
}

} // namespace m3c
