#include "passes/kernel/FragmentProduct.h"

using namespace mlir;

namespace m3c::kernel {

SmallVector<Type> fragmentParameterTypes(MLIRContext *context, const PackedWeight &weight) {
  auto view = [&](ArrayRef<int64_t> shape, int64_t bits) {
    return tile::ViewType::get(context, shape, IntegerType::get(context, bits),
                               tile::Space::Global);
  };
  int64_t panels = weight.panels * weight.matrices, units = weight.k / fragmentK;
  int64_t runs = 32 / weight.perWord() / 4; // of 16 bytes in a lane
  SmallVector<Type> types = {view({panels, units, runs, 32, 4}, 32)};
  if (!weight.scales.empty())
    types.push_back(view({panels, units, 8 * fragmentK / weight.group(), 2}, 8));
  return types;
}

namespace {

class FragmentProduct {
public:
  FragmentProduct(KernelBuilder &kb, const Product &product)
      : kb(kb), product(product), shape(product.weight.shape), rows(product.schedule.at("rows")),
        panels(product.schedule.at("panels")), kSplit(product.schedule.at("k_split")),
        columns(product.schedule.at("warps") / kSplit), warpPanels(panels / columns),
        ahead(product.schedule.at("ahead")), units(shape.k / fragmentK),
        parts(kSplit * kb.cluster()) {}

  void emit(Epilogue epilogue) {
    Value warp = kb.warpId();
    Value local = kb.div(warp, columns);
    kWarp = kb.add(kb.mul(kb.clusterRank(), kSplit), local);
    firstPanel = kb.mul(kb.rem(warp, columns), warpPanels);
    Value partial = kb.alloc({kSplit, rows, panels * panelOutputs}, kb.f32Type());
    auto tile = [&](Value row) {
      Values sums = sumOverK(row);
      auto storePart = [&] {
        for (int64_t p = 0; p < warpPanels; ++p)
          tile::StoreTransposedOp::create(
              kb.builder(), sums[size_t(p)], partial,
              ValueRange{local, kb.index(0), kb.mul(kb.add(firstPanel, p), panelOutputs)});
      };
      addParts(kb, product, partial, row, storePart, [&](Value sum, Value at) {
        epilogue(shape.format() == tile::Format::E2M1 ? unscaled(sum) : sum, at);
      });
    };
    if (product.schedule.count("one_tile"))
      tile(product.rowBegin);
    else
      kb.forLoop(product.rowBegin, product.rowEnd, rows, tile);
    if (kb.cluster() > 1)
      kb.clusterBarrier(); // others may still read this one's sums
  }

private:
  /// Operands of E2M1 are 2^-9 of their values (`tile.dequant_fragment`).
  Value unscaled(Value sum) {
    return kb.map(sum, cast<tile::TileType>(sum.getType()),
                  [&](ValueRange args) { return kb.mulf(args[0], kb.f32(512)); });
  }

  /// This warp's sums, an accumulator for each of its panels.
  Values sumOverK(Value row) {
    Values start;
    for (int64_t p = 0; p < warpPanels; ++p)
      start.push_back(tile::FillOp::create(
          kb.builder(), kb.fragment(16, rows, kb.f32Type(), tile::Layout::MmaAcc), kb.f32(0)));
    // Whole batches of `ahead` fragments, then the rest one by one.
    int64_t stride = parts * ahead, whole = std::max<int64_t>(0, units - (ahead - 1) * parts);
    Values sums =
        kb.forLoop(kWarp, kb.index(whole), stride, start, [&](Value unit, ValueRange carried) {
          return addUnits(row, unit, ahead, carried);
        });
    if (units % stride == 0)
      return sums;
    Value batches =
        kb.div(kb.max(kb.add(kb.sub(kb.index(whole), kWarp), stride - 1), kb.index(0)), stride);
    Value rest = kb.add(kWarp, kb.mul(batches, stride));
    return kb.forLoop(rest, kb.index(units), parts, sums, [&](Value unit, ValueRange carried) {
      return addUnits(row, unit, 1, carried);
    });
  }

  struct Packed {
    Value words, scales;
  };

  /// Adds fragments unit, unit + parts, … (`count` of them); all are loaded before the first is
  /// used.
  Values addUnits(Value row, Value unit, int64_t count, ValueRange carried) {
    SmallVector<Packed> packed;
    Values activations;
    for (int64_t i = 0; i < count; ++i) {
      Value at = kb.add(unit, i * parts);
      for (int64_t p = 0; p < warpPanels; ++p)
        packed.push_back(loadPacked(kb.add(product.panel, kb.add(firstPanel, p)), at));
      activations.push_back(tile::LoadOp::create(
          kb.builder(),
          kb.fragment(fragmentK, rows, kb.builder().getBF16Type(), tile::Layout::MmaB), product.x,
          ValueRange{row, kb.mul(at, fragmentK)}, product.rowEnd,
          ArrayRef<int64_t>{rows, fragmentK}));
    }
    Values sums(carried.begin(), carried.end());
    for (int64_t i = 0; i < count; ++i)
      for (int64_t p = 0; p < warpPanels; ++p)
        sums[size_t(p)] = kb.mma(dequantise(packed[size_t(i * warpPanels + p)]),
                                 activations[size_t(i)], sums[size_t(p)]);
    return sums;
  }

  Packed loadPacked(Value panel, Value unit) {
    auto load = [&](Value view, int64_t lanes, int64_t count) -> Value {
      auto type = cast<tile::ViewType>(view.getType());
      SmallVector<int64_t> sizes(type.getShape());
      sizes[0] = sizes[1] = 1;
      Values indices(sizes.size(), kb.index(0));
      indices[0] = panel;
      indices[1] = unit;
      return tile::LoadOp::create(
          kb.builder(), kb.fragment(lanes, count, type.getElement(), tile::Layout::PerLane), view,
          indices, sizes);
    };
    Packed packed{load(product.weight.words, 32, 32 / shape.perWord()), {}};
    if (product.weight.scales)
      packed.scales = load(product.weight.scales, 8 * fragmentK / shape.group(), 2);
    return packed;
  }

  Value dequantise(const Packed &packed) {
    Type element =
        shape.format() == tile::Format::F32 ? kb.f32Type() : Type(kb.builder().getBF16Type());
    return tile::DequantFragmentOp::create(
        kb.builder(), kb.fragment(16, fragmentK, element, tile::Layout::MmaA), packed.words,
        packed.scales, shape.format(), StringAttr());
  }

  KernelBuilder &kb;
  const Product &product;
  const PackedWeight &shape;
  const int64_t rows, panels, kSplit, columns, warpPanels, ahead, units;
  const int64_t parts; ///< warps of the cluster that share K
  Value kWarp, firstPanel;
};

} // namespace

void emitFragmentProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue) {
  FragmentProduct(kb, product).emit(epilogue);
}

} // namespace m3c::kernel
