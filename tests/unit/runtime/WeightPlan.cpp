#include "tests/unit/runtime/WeightPlan.h"

#include <cstring>

namespace m3c::test {

using plan::Recipe;

plan::PlanFile planWith(Recipe recipe, uint32_t bits, uint64_t rowLength, uint32_t panels,
                        uint64_t bytes, const std::vector<Piece> &pieces, uint32_t abreast) {
  plan::PlanWriter writer;
  plan::TablesT tables = toyTables(writer.addSection(plan::SectionKind::Code, "code"));
  auto buffer = std::make_unique<plan::WeightBufferT>();
  buffer->symbol = "w";
  buffer->recipe = recipe;
  buffer->bits = bits;
  buffer->row_length = rowLength;
  buffer->panels = panels;
  buffer->abreast = abreast;
  buffer->bytes = bytes;
  for (const Piece &piece : pieces) {
    auto entry = std::make_unique<plan::WeightPieceT>();
    entry->tensor = piece.tensor;
    entry->dtype = piece.dtype;
    entry->shape = piece.shape;
    entry->first_panel = piece.firstPanel;
    entry->panel_step = piece.panelStep;
    entry->dest_offset = piece.destOffset;
    buffer->pieces.push_back(std::move(entry));
  }
  tables.weights.push_back(std::move(buffer));
  for (auto &launch : tables.targets[0]->buckets[0]->launches) // only what launches read is bound
    for (auto &arg : launch->args)
      if (arg->kind == plan::ArgKind::Weight) {
        arg->index = 1;
        arg->fixed_bytes = bytes;
      }
  writer.setTables(tables);
  writer.setManifest("{}");
  return plan::PlanFile::fromBytes(writer.bytes(), "test.m3plan");
}

std::vector<std::byte> boundBytes(const plan::PlanFile &plan, const WeightSource &source,
                                  hal::Device &device) {
  Weights weights =
      Weights::bind(plan.tables(), *plan.tables().targets()->Get(0), source, device, 2);
  std::vector<std::byte> bytes(plan.tables().weights()->Get(1)->bytes());
  std::unique_ptr<hal::Stream> stream = device.createStream();
  stream->read(weights.buffer(), weights.address(1) - weights.buffer().address(), bytes);
  return bytes;
}

std::vector<MadeUpCase> madeUpCases() {
  std::vector<MadeUpCase> cases;
  auto add = [&](std::string name, plan::PlanFile plan) {
    cases.push_back({std::move(name), std::move(plan)});
  };
  add("raw BF16", planWith(Recipe::Raw, 0, 0, 0, 20002, {{"embed.weight", "BF16", {137, 73}}}));
  add("raw bytes at an offset", planWith(Recipe::Raw, 0, 0, 0, 900,
                                         {{"a.weight_packed", "U8", {16, 25}, 0, 1, 100},
                                          {"a.weight_scale", "F8_E4M3", {16, 4}, 0, 1, 600}}));
  add("norm widened",
      planWith(Recipe::ToF32, 0, 0, 0, 4 * 6145, {{"input_norm.weight", "BF16", {6145}}}));
  add("bias widened", planWith(Recipe::ToF32, 0, 0, 0, 512, {{"bias", "F32", {128}}}));
  for (Recipe recipe : {Recipe::Scalar, Recipe::Reciprocal})
    add(plan::EnumNameRecipe(recipe), planWith(recipe, 0, 0, 0, 8,
                                               {{"a.weight_global_scale", "F32", {1}, 0, 1, 0},
                                                {"b.weight_global_scale", "F32", {1}, 0, 1, 4}}));
  struct Kind {
    uint32_t bits;
    const char *dtype;
  };
  constexpr int64_t rows = 37, k = 192;
  for (Kind kind : {Kind{4, "U8"}, {8, "F8_E4M3"}, {16, "BF16"}, {32, "F32"}}) {
    int64_t columns = kind.bits == 4 ? k / 2 : k;
    std::string text = " of " + std::to_string(kind.bits) + " bits";
    uint64_t panel = k * kind.bits * 2;
    std::vector<Piece> pieces = {{"a.weight", kind.dtype, {rows, columns}, 0, 2, 0},
                                 {"b.weight", kind.dtype, {rows, columns}, 1, 2, 0}};
    for (uint32_t abreast : {1, 2})
      add("panels" + text,
          planWith(Recipe::PanelWords, kind.bits, k, 6, 6 * panel, pieces, abreast));
    add("fragments" + text, planWith(Recipe::FragmentWords, kind.bits, k, 6, 6 * panel, pieces));
  }
  for (uint32_t group : {16, 32}) {
    const char *dtype = group == 16 ? "F8_E4M3" : "U8";
    std::vector<Piece> pieces = {{"a.weight_scale", dtype, {rows, k / group}, 0, 2, 0},
                                 {"b.weight_scale", dtype, {rows, k / group}, 1, 2, 0}};
    uint64_t bytes = 6 * 16 * k / group;
    add("scales of panels", planWith(Recipe::PanelScales, 8, k / group, 6, bytes, pieces, 2));
    add("scales of fragments",
        planWith(Recipe::FragmentScales, group, k / group, 6, bytes, pieces));
  }
  return cases;
}

} // namespace m3c::test
