#include "passes/kernel/products/FragmentProduct.h"

#include "passes/kernel/products/SplitRows.h"

#include <algorithm>

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

static Value loadPart(KernelBuilder &kb, Value view, Value panel, Value unit, int64_t lanes,
                      int64_t count) {
  auto type = cast<tile::ViewType>(view.getType());
  SmallVector<int64_t> sizes(type.getShape());
  sizes[0] = sizes[1] = 1;
  Values indices(sizes.size(), kb.index(0));
  indices[0] = panel;
  indices[1] = unit;
  return tile::LoadOp::create(kb.builder(),
                              kb.fragment(lanes, count, type.getElement(), tile::Layout::PerLane),
                              view, indices, sizes);
}

FragmentCodes loadFragment(KernelBuilder &kb, const WeightView &weight, Value panel, Value unit) {
  const PackedWeight &shape = weight.shape;
  FragmentCodes codes{loadPart(kb, weight.words, panel, unit, 32, 32 / shape.perWord()), {}};
  if (weight.scales)
    codes.scales = loadPart(kb, weight.scales, panel, unit, 8 * fragmentK / shape.group(), 2);
  return codes;
}

Value dequantised(KernelBuilder &kb, const PackedWeight &weight, const FragmentCodes &codes) {
  Type element =
      weight.format() == tile::Format::F32 ? kb.f32Type() : Type(kb.builder().getBF16Type());
  return tile::DequantFragmentOp::create(kb.builder(),
                                         kb.fragment(16, fragmentK, element, tile::Layout::MmaA),
                                         codes.words, codes.scales, weight.format(), StringAttr());
}

Value unscaledSums(KernelBuilder &kb, const PackedWeight &weight, Value sums) {
  if (weight.format() != tile::Format::E2M1)
    return sums;
  return kb.map(sums, cast<tile::TileType>(sums.getType()),
                [&](ValueRange args) { return kb.mulf(args[0], kb.f32(512)); });
}

namespace {

class FragmentProduct {
public:
  FragmentProduct(KernelBuilder &kb, const Product &product)
      : kb(kb), product(product), shape(product.weight.shape), rows(product.schedule.at("rows")),
        rowParts(kernel::rowParts(product.schedule)), panels(product.schedule.at("panels")),
        kSplit(product.schedule.at("k_split")), columns(product.schedule.at("warps") / kSplit),
        warpPanels(panels / columns), ahead(product.schedule.at("ahead")),
        units(shape.k / fragmentK), parts(kSplit * kb.cluster()),
        early(product.schedule.count("one_tile") ? choiceOf(product.schedule, "early") : 0),
        meets(partsMeet(kb, product)) {}

  void emit(Epilogue epilogue) {
    if (early == 2)
      kb.allowLaunch();
    if (meets)
      tile::ClusterArriveOp::create(kb.builder());
    Value warp = kb.warpId();
    Value local = kb.div(warp, columns);
    kWarp = kb.add(kb.mul(kb.clusterRank(), kSplit), local);
    firstPanel = kb.mul(kb.rem(warp, columns), warpPanels);
    int64_t sharers = meets ? kb.cluster() : 1;
    Value partial = kb.alloc(
        {kSplit * sharers, (rows + sharers - 1) / sharers, panels * panelOutputs}, kb.f32Type());
    IntegerAttr across = meets ? kb.builder().getI64IntegerAttr(sharers) : IntegerAttr();
    auto tile = [&](Value row) {
      Values sums = sumOverK(row);
      auto storePart = [&] {
        for (int64_t p = 0; p < warpPanels; ++p)
          tile::StoreTransposedOp::create(kb.builder(), sums[size_t(p)], partial,
                                          ValueRange{meets ? kWarp : local, kb.index(0),
                                                     kb.mul(kb.add(firstPanel, p), panelOutputs)},
                                          across, rowParts == 2);
      };
      addParts(kb, product, partial, row, storePart,
               [&](Value sum, Value at) { epilogue(unscaledSums(kb, shape, sum), at); });
    };
    if (product.schedule.count("one_tile"))
      tile(product.rowBegin);
    else
      kb.forLoop(product.rowBegin, product.rowEnd, rows, tile);
  }

private:
  /// A fragment of each panel of this warp, and the activations that it meets.
  struct Unit {
    SmallVector<Value> words, scales; ///< of each panel; scales may be null
    Value activations;
  };

  /// This warp's sums, an accumulator for each of its panels, over the fragments kWarp + i · parts.
  Values sumOverK(Value row) {
    Values sums;
    for (int64_t p = 0; p < warpPanels; ++p)
      sums.push_back(tile::FillOp::create(
          kb.builder(), kb.fragment(16, rows * rowParts, kb.f32Type(), tile::Layout::MmaAcc),
          kb.f32(0)));
    int64_t each = units / parts, batches = each / ahead; // what all warps have alike
    if (isOn(product.schedule, "straight") && units % parts == 0)
      return sumStraight(row, each, sums);
    Value next = kWarp;
    if (!batches)
      begin();
    if (batches) {
      sums = addBatches(row, batches, sums);
      next = kb.add(kWarp, batches * ahead * parts);
    }
    if (units % parts == 0 && each % ahead == 0)
      return sums;
    return kb.forLoop(next, kb.index(units), parts, sums, [&](Value unit, ValueRange carried) {
      Values added(carried.begin(), carried.end());
      add(loadUnit(row, unit), added);
      return added;
    });
  }

  SmallVector<Unit> loadBatch(Value row, Value unit) {
    SmallVector<Unit> batch;
    for (int64_t i = 0; i < ahead; ++i)
      batch.push_back(loadWeights(kb.add(unit, i * parts)));
    begin();
    for (int64_t i = 0; i < ahead; ++i)
      batch[size_t(i)].activations =
          loadActivations(row, kb.mul(kb.add(unit, i * parts), fragmentK));
    return batch;
  }

  /// Once in a kernel: weights are under way, which no launch makes; all else waits for the launch
  /// before.
  void begin() {
    if (begun || !early)
      return;
    begun = true;
    kb.awaitLaunch();
    if (early == 1)
      kb.allowLaunch();
  }

  /// Without a loop: weights are under way `ahead` fragments before their product, the activations,
  /// which are nearer, `ahead_rows`.
  Values sumStraight(Value row, int64_t each, Values sums) {
    // A unit's rows come after its weights, which are asked for `ahead` units before.
    int64_t rowsAhead = std::min(choiceOf(product.schedule, "ahead_rows", ahead), ahead);
    SmallVector<Unit> all(static_cast<size_t>(each));
    auto unit = [&](int64_t i) { return kb.add(kWarp, i * parts); };
    auto weigh = [&](int64_t i) {
      if (i < each)
        all[size_t(i)] = loadWeights(unit(i));
    };
    auto activate = [&](int64_t i) {
      if (i < each)
        all[size_t(i)].activations = loadActivations(row, kb.mul(unit(i), fragmentK));
    };
    for (int64_t i = 0; i < ahead; ++i)
      weigh(i);
    begin();
    for (int64_t i = 0; i < rowsAhead; ++i)
      activate(i);
    for (int64_t i = 0; i < each; ++i) {
      add(all[size_t(i)], sums);
      weigh(i + ahead);
      activate(i + rowsAhead);
    }
    return sums;
  }

  Values addBatches(Value row, int64_t batches, Values sums) {
    if (isOn(product.schedule, "roll"))
      return addRolling(row, batches, sums);
    begin();
    Value end = kb.add(kWarp, batches * ahead * parts);
    return kb.forLoop(kWarp, end, ahead * parts, sums, [&](Value unit, ValueRange carried) {
      Values added(carried.begin(), carried.end());
      for (const Unit &one : loadBatch(row, unit))
        add(one, added);
      return added;
    });
  }

  /// `ahead` fragments are always under way: each makes room for the one of the next batch.
  Values addRolling(Value row, int64_t batches, Values sums) {
    SmallVector<Unit> batch = loadBatch(row, kWarp);
    auto flat = [&] {
      Values values = sums;
      for (const Unit &unit : batch)
        for (ArrayRef<Value> part : {ArrayRef<Value>(unit.words), ArrayRef<Value>(unit.scales),
                                     ArrayRef<Value>(unit.activations)})
          llvm::append_range(values, part);
      return values;
    };
    auto take = [&](ValueRange values) {
      auto next = values.begin();
      for (Value &sum : sums)
        sum = *next++;
      for (Unit &unit : batch) {
        for (Value &value : unit.words)
          value = *next++;
        for (Value &value : unit.scales)
          value = *next++;
        unit.activations = *next++;
      }
    };
    Value last = kb.add(kWarp, (batches - 1) * ahead * parts);
    auto body = [&](Value unit, ValueRange carried) {
      take(carried);
      for (int64_t i = 0; i < ahead; ++i) {
        add(batch[size_t(i)], sums);
        batch[size_t(i)] = loadUnit(row, kb.add(unit, (ahead + i) * parts));
      }
      return flat();
    };
    if (batches > 1)
      take(kb.forLoop(kWarp, last, ahead * parts, flat(), body));
    for (const Unit &unit : batch)
      add(unit, sums);
    return sums;
  }

  void add(const Unit &unit, Values &sums) {
    for (int64_t p = 0; p < warpPanels; ++p)
      sums[size_t(p)] = kb.mma(dequantise(unit, size_t(p)), unit.activations, sums[size_t(p)]);
  }

  Unit loadUnit(Value row, Value unit) {
    Unit loaded = loadWeights(unit);
    loaded.activations = loadActivations(row, kb.mul(unit, fragmentK));
    return loaded;
  }

  Unit loadWeights(Value unit) {
    Unit loaded;
    for (int64_t p = 0; p < warpPanels; ++p) {
      Value panel = kb.add(product.panel, kb.add(firstPanel, p));
      FragmentCodes codes = loadFragment(kb, product.weight, panel, unit);
      loaded.words.push_back(codes.words);
      if (codes.scales)
        loaded.scales.push_back(codes.scales);
    }
    return loaded;
  }

  Value loadActivations(Value row, Value k) {
    tile::TileType type =
        kb.fragment(fragmentK, rows * rowParts, kb.builder().getBF16Type(), tile::Layout::MmaB);
    if (const RowList &list = product.rowOfX; list.list)
      return tile::LoadRowsOp::create(kb.builder(), type, product.x, k, list.list,
                                      kb.add(row, list.offset), kb.add(product.rowEnd, list.offset),
                                      list.per);
    Value first = row, end = product.rowEnd;
    if (rowParts > 1) { // the parts of a row are rows of the view
      first = kb.mul(row, rowParts);
      end = kb.mul(end, rowParts);
    }
    return tile::LoadOp::create(kb.builder(), type, product.x, ValueRange{first, k}, end,
                                ArrayRef<int64_t>{rows * rowParts, fragmentK});
  }

  Value dequantise(const Unit &unit, size_t panel) {
    return dequantised(kb, shape,
                       {unit.words[panel], unit.scales.empty() ? Value() : unit.scales[panel]});
  }

  KernelBuilder &kb;
  const Product &product;
  const PackedWeight &shape;
  const int64_t rows;
  const int64_t rowParts; ///< of each row, columns of an instruction that follow each other
  const int64_t panels, kSplit, columns, warpPanels, ahead, units;
  const int64_t parts; ///< warps of the cluster that share K
  const int64_t early; ///< weights before the wait; 2: the next launch is allowed before as well
  const bool meets;
  Value kWarp, firstPanel;
  bool begun = false;
};

} // namespace

void emitFragmentProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue) {
  FragmentProduct(kb, product).emit(epilogue);
}

} // namespace m3c::kernel
