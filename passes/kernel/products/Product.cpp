#include "passes/kernel/products/Product.h"

#include "passes/kernel/products/SharedProduct.h"

#include <optional>

using namespace mlir;

namespace m3c::kernel {

SmallVector<Type> weightParameterTypes(MLIRContext *context, const PackedWeight &weight) {
  auto view = [&](ArrayRef<int64_t> shape, Type element) {
    return tile::ViewType::get(context, shape, element, tile::Space::Global);
  };
  int64_t blocks = weight.panels * weight.matrices / weight.abreast;
  int64_t line = weight.abreast * panelOutputs;
  SmallVector<Type> types;
  if (weight.fragments) {
    types = fragmentParameterTypes(context, weight);
  } else {
    types = {view({blocks, weight.k / weight.perWord(), line}, IntegerType::get(context, 32))};
    if (!weight.scales.empty())
      types.push_back(
          view({blocks, weight.k / weight.group(), line}, IntegerType::get(context, 8)));
  }
  if (!weight.global.empty())
    types.push_back(view({ShapedType::kDynamic}, Float32Type::get(context)));
  return types;
}

WeightView bindWeight(KernelBuilder &kb, const PackedWeight &weight, unsigned &next) {
  WeightView view{weight, kb.parameter(next++), {}, {}};
  if (!weight.scales.empty())
    view.scales = kb.parameter(next++);
  if (!weight.global.empty())
    view.global = kb.parameter(next++);
  return view;
}

void addWeightArguments(StepLowering &step, const PackedWeight &weight,
                        SmallVectorImpl<LaunchArgument> &arguments) {
  for (const std::string &symbol : {weight.words, weight.scales, weight.global})
    if (!symbol.empty())
      arguments.push_back({step.weight(symbol), planir::Access::Read});
}

namespace {
/// Where `panels` panels from `panel` on lie: `count` blocks of panels abreast, of each `outputs`
/// columns from `column` on.
struct PanelRun {
  PanelRun(KernelBuilder &kb, const PackedWeight &weight, Value panel, int64_t panels)
      : block(kb.div(panel, weight.abreast)), column(kb.index(0)),
        count(llvm::divideCeil(panels, weight.abreast)),
        outputs(std::min(panels, weight.abreast) * panelOutputs) {
    if (panels < weight.abreast)
      column = kb.mul(kb.rem(panel, weight.abreast), panelOutputs);
  }
  Value block, column;
  int64_t count, outputs;
};
} // namespace

/// Brings the words (or scales) that hold element k near, past the last element those of `next`,
/// if given. Each block of panels is a stream of its own, and hardware follows a stream only to the
/// end of a page.
static void bringNear(KernelBuilder &kb, const WeightView &weight, const PanelRun &run,
                      const PanelRun *next, Value k, bool scales) {
  Value view = scales ? weight.scales : weight.words, block = run.block;
  int64_t step = scales ? weight.shape.group() : weight.shape.perWord();
  if (next) {
    Value past = kb.atLeast(k, kb.index(weight.shape.k));
    block = kb.selectf(past, next->block, block);
    k = kb.selectf(past, kb.sub(k, kb.index(weight.shape.k)), k);
  }
  for (int64_t i = 0; i < run.count; ++i)
    tile::CopyOp::create(kb.builder(), view, {kb.add(block, i), kb.div(k, step), run.column},
                         scales ? run.outputs : run.outputs * 4);
}

/// Calls `body` with every k of [kBegin, kBegin + count) in order and the dequantised weights of
/// `panels` panels at that k; values are carried through the loops. `ahead` elements of K later are
/// brought near meanwhile, past the last one those of `next`.
static Values forEachK(KernelBuilder &kb, const WeightView &weight, const PanelRun &run,
                       const PanelRun *next, int64_t ahead, Value kBegin, int64_t count,
                       ValueRange init,
                       function_ref<Values(Value k, Value weights, ValueRange carried)> body) {
  const PackedWeight &shape = weight.shape;
  int64_t perWord = shape.perWord(), cols = run.count * run.outputs;
  Value zero = kb.index(0);
  auto wordLoop = [&](Value firstK, int64_t words, Value scale, ValueRange carriedIn) {
    return kb.forLoop(zero, kb.index(words), 1, carriedIn, [&](Value word, ValueRange carried) {
      Value k = kb.add(firstK, kb.mul(word, perWord));
      if (ahead)
        bringNear(kb, weight, run, next, kb.add(k, ahead), false);
      Value codes = kb.load(weight.words, {run.block, kb.div(k, perWord), run.column},
                            {run.count, 1, run.outputs}, 1, cols);
      return kb.forLoop(
          zero, kb.index(perWord), 1, carried,
          [&](Value part, ValueRange inner) {
            Value weights = tile::DequantWordsOp::create(kb.builder(), kb.tile(1, cols), codes,
                                                         part, scale, shape.format(), StringAttr());
            return body(kb.add(k, part), weights, inner);
          },
          /*unroll=*/true);
    });
  };
  int64_t group = shape.group();
  if (!group)
    return wordLoop(kBegin, count / perWord, {}, init);
  tile::Format scaleFormat = group == 32 ? tile::Format::E8M0 : tile::Format::UE4M3;
  return kb.forLoop(zero, kb.index(count / group), 1, init, [&](Value g, ValueRange carried) {
    Value k = kb.add(kBegin, kb.mul(g, group));
    if (ahead)
      bringNear(kb, weight, run, next, kb.add(k, ahead), true);
    Value bytes = kb.load(weight.scales, {run.block, kb.div(k, group), run.column},
                          {run.count, 1, run.outputs}, 1, cols);
    Value scale =
        tile::DecodeOp::create(kb.builder(), kb.tile(1, cols), bytes, scaleFormat, StringAttr());
    return wordLoop(k, group / perWord, scale, carried);
  });
}

/// Elements of K that a streaming product brings near before it needs them.
static int64_t elementsAhead(const Product &product) {
  return product.schedule.at("ahead") * product.weight.shape.perWord();
}

void bringStartNear(KernelBuilder &kb, const Product &product) {
  const PackedWeight &shape = product.weight.shape;
  PanelRun run(kb, shape, product.panel, product.schedule.at("panels"));
  Value end = kb.index(std::min(elementsAhead(product), shape.k));
  auto each = [&](int64_t step, bool scales) {
    kb.forLoop(kb.index(0), end, step,
               [&](Value k) { bringNear(kb, product.weight, run, nullptr, k, scales); });
  };
  each(shape.perWord(), false);
  if (shape.group())
    each(64 / run.outputs * shape.group(), true); // scales of several groups share 64 bytes
}

/// A tile of rows as FP32 in shared memory: an element of BF16 costs three operations to broadcast,
/// a vector of them two to widen.
static void emitWiden(KernelBuilder &kb, Value x, Value from, Value wide) {
  ArrayRef<int64_t> shape = cast<tile::ViewType>(wide.getType()).getShape();
  kb.forLoop(kb.index(0), kb.index(shape[0]), 1, [&](Value r) {
    kb.forLoop(kb.index(0), kb.index(shape[1]), 16, [&](Value k) {
      kb.store(kb.loadF32(x, {kb.add(from, r), k}, {1, 16}, 1, 16), wide, {r, k}, {1, 16});
    });
  });
}

/// One row with the outputs of a work item in runs of `columns`: a group of K of all runs, each
/// dequantised and multiplied as a whole, then the next group. Sums wait in shared memory
/// meanwhile, so that one run has the registers for itself.
static Value emitByColumns(KernelBuilder &kb, const Product &product, const PanelRun &run,
                           const PanelRun *next, Value x, Value row, Value sums) {
  const WeightView &weight = product.weight;
  const PackedWeight &shape = weight.shape;
  int64_t cols = run.count * run.outputs, columns = product.schedule.at("columns");
  int64_t group = shape.group(), perWord = shape.perWord(), ahead = elementsAhead(product);
  Value zero = kb.index(0);
  kb.store(kb.fill(0.0, 1, cols), sums, {zero, zero}, {1, cols});
  kb.forLoop(zero, kb.index(shape.k), group, [&](Value k) {
    bringNear(kb, weight, run, next, kb.add(k, ahead), true);
    for (int64_t i = 0; i < group; i += perWord)
      bringNear(kb, weight, run, next, kb.add(k, ahead + i), false);
    kb.forLoop(zero, kb.index(cols), columns, [&](Value column) {
      Value block = kb.add(run.block, kb.div(column, run.outputs));
      Value first = kb.add(run.column, kb.rem(column, run.outputs));
      auto load = [&](Value view, Value at) {
        return kb.load(view, {block, at, first}, {1, 1, columns}, 1, columns);
      };
      Value scale = tile::DecodeOp::create(kb.builder(), kb.tile(1, columns),
                                           load(weight.scales, kb.div(k, group)),
                                           tile::Format::UE4M3, StringAttr());
      Value acc = kb.load(sums, {zero, column}, {1, columns}, 1, columns);
      for (int64_t i = 0; i < group; i += perWord) {
        Value word = kb.add(k, i), codes = load(weight.words, kb.div(word, perWord));
        acc = kb.forLoop(
            zero, kb.index(perWord), 1, acc,
            [&](Value part, ValueRange carried) {
              Value weights =
                  tile::DequantWordsOp::create(kb.builder(), kb.tile(1, columns), codes, part,
                                               scale, shape.format(), StringAttr());
              Value factor = kb.loadF32(x, {row, kb.add(word, part)}, {1, 1}, 1, 1);
              return Values{kb.mma(factor, weights, carried[0])};
            },
            /*unroll=*/true)[0];
      }
      kb.store(acc, sums, {zero, column}, {1, columns});
    });
  });
  return kb.load(sums, {zero, zero}, {1, cols}, 1, cols);
}

/// Codes go through registers once; rows of the register tile share each dequantised vector.
static void emitStreaming(KernelBuilder &kb, const Product &product, Epilogue epilogue) {
  int64_t rows = product.schedule.at("rows"), panels = product.schedule.at("panels");
  int64_t cols = panels * panelOutputs, inputs = product.weight.shape.k;
  Value wide;
  if (isOn(product.schedule, "widen") && rows > 1 && inputs % 16 == 0)
    wide = kb.alloc({rows, inputs}, kb.f32Type());
  bool byColumns =
      product.schedule.count("columns") && rows == 1 && product.weight.shape.group() == 16;
  Value sums;
  if (byColumns)
    sums = kb.alloc({1, cols}, kb.f32Type());
  if (!product.started)
    bringStartNear(kb, product);
  PanelRun run(kb, product.weight.shape, product.panel, panels);
  std::optional<PanelRun> next;
  if (product.next)
    next.emplace(kb, product.weight.shape, product.next, panels);
  else if (run.count > 1) // a single stream goes on there by itself
    next.emplace(kb, product.weight.shape, kb.add(product.panel, panels), panels);
  kb.forLoop(product.rowBegin, product.rowEnd, rows, [&](Value row) {
    Value from = row;
    if (const RowList &rows = product.rowOfX; rows.list)
      from = kb.div(kb.loadIndex(rows.list, {kb.add(row, rows.offset)}), rows.per);
    if (byColumns)
      return epilogue(
          emitByColumns(kb, product, run, next ? &*next : nullptr, product.x, from, sums), row);
    Value acc = kb.fill(0.0, rows, cols), source = product.x;
    if (wide) {
      emitWiden(kb, product.x, from, wide);
      source = wide;
      from = kb.index(0);
    }
    Values result =
        forEachK(kb, product.weight, run, next ? &*next : nullptr, elementsAhead(product),
                 kb.index(0), inputs, acc, [&](Value k, Value weights, ValueRange carried) {
                   Value x = kb.loadF32(source, {from, k}, {rows, 1}, rows, 1);
                   return Values{kb.mma(x, weights, carried[0])};
                 });
    epilogue(result[0], row);
  });
}

bool partsMeet(KernelBuilder &kb, const Product &product) {
  return kb.cluster() > 1 && product.schedule.count("one_tile");
}

void addParts(KernelBuilder &kb, const Product &product, Value parts, Value row,
              function_ref<void()> storePart, Epilogue epilogue) {
  ArrayRef<int64_t> shape = cast<tile::ViewType>(parts.getType()).getShape();
  int64_t rows = product.schedule.at("rows"), cols = product.schedule.at("panels") * panelOutputs;
  bool meets = partsMeet(kb, product);
  if (meets)
    tile::ClusterWaitOp::create(kb.builder()); // all have begun
  else if (!product.schedule.count("one_tile"))
    kb.clusterBarrier(); // the sums of the rows before have been read
  storePart();
  kb.clusterBarrier();
  SmallVector<Value> sources;
  for (int64_t rank = 0; rank < (meets ? 1 : kb.cluster()); ++rank)
    sources.push_back(meets ? parts : kb.peer(parts, kb.index(rank)));
  Value end = kb.min(kb.add(row, rows), product.rowEnd);
  kb.eachByWarpOfCluster(row, end, [&](Value at) {
    Value sum, local = kb.sub(at, row);
    if (meets)
      local = kb.div(local, kb.cluster());
    for (Value source : sources)
      for (int64_t k = 0; k < shape[0]; ++k) {
        Value part = kb.load(source, {kb.index(k), local, kb.index(0)}, {1, 1, cols}, 1, cols);
        sum = sum ? kb.map({sum, part}, 1, cols,
                           [&](ValueRange args) { return kb.addf(args[0], args[1]); })
                  : part;
      }
    epilogue(sum, at);
  });
}

/// A chunk of the panels is dequantised into a ring, then multiplied with one tile of rows after
/// the other; partial sums wait in shared memory between chunks.
static void emitRing(KernelBuilder &kb, const Product &product, Epilogue epilogue) {
  const Schedule &schedule = product.schedule;
  int64_t rows = schedule.at("rows"), panels = schedule.at("panels"),
          chunk = schedule.at("k_chunk");
  int64_t cols = panels * panelOutputs, k = product.weight.shape.k;
  auto narrow = schedule.find("tile_panels");
  int64_t tileCols = narrow == schedule.end() ? cols : narrow->second * panelOutputs;
  Value zero = kb.index(0);
  kb.when(kb.less(product.rowBegin, product.rowEnd), [&] {
    int64_t sumRows = llvm::divideCeil(schedule.at("row_block"), rows) * rows;
    Value sums = kb.alloc({sumRows, cols}, kb.f32Type());
    Value ring = kb.ring(schedule.at("stages"), {chunk, cols}, kb.f32Type());
    auto eachTile = [&](function_ref<void(Value row, Value local)> body) {
      kb.forLoop(product.rowBegin, product.rowEnd, rows,
                 [&](Value row) { body(row, kb.sub(row, product.rowBegin)); });
    };
    eachTile([&](Value, Value local) {
      kb.store(kb.fill(0.0, rows, cols), sums, {local, zero}, {rows, cols});
    });
    kb.pipeline(zero, kb.index(k), chunk, [&](Value kBegin) {
      kb.role("dequantise", [&] {
        Value stage = kb.acquire(ring);
        PanelRun run(kb, product.weight.shape, product.panel, panels);
        forEachK(kb, product.weight, run, nullptr, 0, kBegin, chunk, {},
                 [&](Value at, Value weights, ValueRange) {
                   kb.store(weights, stage, {kb.sub(at, kBegin), zero}, {1, cols});
                   return Values{};
                 });
        kb.commit(ring);
      });
      kb.role("multiply", [&] {
        Value stage = kb.wait(ring);
        eachTile([&](Value row, Value local) {
          kb.forLoop(zero, kb.index(cols), tileCols, [&](Value col) {
            Value acc = kb.load(sums, {local, col}, {rows, tileCols}, rows, tileCols);
            Values result =
                kb.forLoop(zero, kb.index(chunk), 1, acc, [&](Value at, ValueRange carried) {
                  Value x = kb.loadF32(product.x, {row, kb.add(kBegin, at)}, {rows, 1}, rows, 1);
                  Value weights = kb.load(stage, {at, col}, {1, tileCols}, 1, tileCols);
                  return Values{kb.mma(x, weights, carried[0])};
                });
            kb.store(result[0], sums, {local, col}, {rows, tileCols});
          });
        });
        kb.release(ring);
      });
    });
    eachTile([&](Value row, Value local) {
      epilogue(kb.load(sums, {local, zero}, {rows, cols}, rows, cols), row);
    });
  });
}

void emitProduct(KernelBuilder &kb, const Product &product, const RowEpilogue &epilogue) {
  if (sharesRows(product.schedule))
    return emitSharedProduct(kb, product, epilogue);
  emitProduct(kb, product,
              [&](Value acc, Value row) { epilogue.store(acc, row, epilogue.loadFor(row, acc)); });
}

void emitProduct(KernelBuilder &kb, const Product &product, Epilogue epilogue) {
  if (sharesRows(product.schedule))
    return emitSharedProduct(kb, product,
                             {{}, [&](Value acc, Value row, ValueRange) { epilogue(acc, row); }});
  if (usesFragments(product.schedule))
    return emitFragmentProduct(kb, product, epilogue);
  auto plain = [&] {
    product.schedule.at("ring") ? emitRing(kb, product, epilogue)
                                : emitStreaming(kb, product, epilogue);
  };
  if (kb.warps() == 1)
    return plain();
  // Beside a product that several warps share, one warp does this one.
  kb.barrier();
  kb.when(kb.equal(kb.warpId(), kb.index(0)), plain);
  kb.barrier();
}

RowBlock::RowBlock(KernelBuilder &kb, const Schedule &schedule, Value rows)
    : begin(kb.index(0)), end(rows) {
  auto block = schedule.find("row_block");
  if (block == schedule.end())
    return;
  begin = kb.mul(kb.blockId(tile::Axis::Y), block->second);
  end = kb.min(kb.add(begin, block->second), rows);
}

void storeColumns(KernelBuilder &kb, Value tile, Value view, Value row, Value col, int64_t outputs,
                  Value rowEnd) {
  auto type = cast<tile::TileType>(tile.getType());
  int64_t rows = type.getRows(), cols = type.getCols();
  tile = kb.codesFor(view, tile);
  if (outputs % panelOutputs == 0 && outputs % cols) { // the last work item has fewer panels
    for (int64_t c = 0; c < cols; c += panelOutputs)
      kb.when(kb.less(kb.add(col, c), kb.index(outputs)), [&] {
        kb.store(kb.slice(tile, 0, c, rows, panelOutputs), view, {row, kb.add(col, c)},
                 {rows, panelOutputs}, rowEnd);
      });
    return;
  }
  if (outputs % panelOutputs == 0) {
    kb.store(tile, view, {row, col}, {rows, cols}, rowEnd);
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      Value at = kb.add(row, r), column = kb.add(col, c);
      kb.when(kb.less(at, rowEnd), [&] {
        kb.when(kb.less(column, kb.index(outputs)),
                [&] { kb.storeScalar(kb.extract(tile, r, c), view, {at, column}); });
      });
    }
}

} // namespace m3c::kernel
