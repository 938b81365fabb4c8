// Family "attention": sparse (pages of a selection) and dense (all pages up to the row's own).
//
// Per row, KV head and page, in ascending order of pages: products with the keys, online softmax,
// weighted sum of the values over ascending keys. The schedule says how many rows share a
// dequantised page; the arithmetic of a row is the same in all of them.
#include "passes/kernel/Families.h"
#include "passes/kernel/Product.h"
#include "passes/kernel/families/CachePages.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

constexpr int64_t pageTokens = m3::blockTokens;
constexpr float lowest = -std::numeric_limits<float>::infinity();

struct AttentionShape {
  int64_t heads; ///< query heads
  int64_t kvHeads, dims;
  int64_t selected; ///< blocks of a selection, 0 = dense
  double scale;
  int64_t group() const { return heads / kvHeads; }
};

/// Parameters: batch rows, query [rows, heads, dims], pool (at the layer's K slot of head 0),
/// (selection [rows, KV heads, k]), out [rows, heads, dims]. Work item: a tile of rows × a KV head.
class AttentionKernel {
public:
  AttentionKernel(KernelBuilder &kb, const CachePages &cache, const AttentionShape &shape,
                  const Schedule &schedule)
      : kb(kb), cache(cache), shape(shape), tileRows(schedule.at("rows")), group(shape.group()),
        keys(schedule.at("keys")), heads(dividing(group, schedule.at("heads"))),
        valueHeads(dividing(group, schedule.at("value_heads"))),
        valueDims(dividing(shape.dims / 16, schedule.at("value_dims") / 16) * 16),
        chunk(schedule.at("chunk")), lanes(schedule.at("lanes")), batch(kb), query(kb.parameter(4)),
        pool(kb.parameter(5)), selection(shape.selected ? kb.parameter(6) : Value()),
        out(kb.parameter(shape.selected ? 7 : 6)) {}

  void emit() {
    scores = kb.alloc({tileRows * group, pageTokens}, kb.f32Type());
    sums = kb.alloc({tileRows * group, shape.dims}, kb.f32Type());
    ordered = kb.alloc({tileRows * group, shape.dims}, kb.f32Type());
    maxima = kb.alloc({tileRows * group}, kb.f32Type());
    weights = kb.alloc({tileRows * group}, kb.f32Type());
    cursors = kb.alloc({tileRows}, kb.i32Type());
    takers = kb.alloc({tileRows}, kb.i32Type());
    ring = kb.ring(1, {chunk, shape.dims}, kb.f32Type());
    kvHead = kb.blockId(tile::Axis::Y);
    Value begin = kb.mul(kb.blockId(tile::Axis::X), tileRows);
    Value end = kb.min(kb.add(begin, tileRows), batch.rows);
    batch.eachRun(begin, end, tileRows, [&](Value from, Value to) {
      first = from;
      last = to;
      lastPosition = batch.lastPosition(first, last);
      clear();
      eachBlock([&](Value block) { attend(block); });
      finish();
    });
  }

private:
  //===- State of the rows
  Value slotOf(Value tileRow, Value head) { return kb.add(kb.mul(tileRow, group), head); }
  Value rowCount() { return kb.sub(last, first); }

  void clear() {
    kb.forLoop(kb.index(0), rowCount(), 1, [&](Value r) {
      kb.storeScalar(kb.index(0), cursors, {r});
      kb.forLoop(kb.index(0), kb.index(group), 1, [&](Value head) {
        Value slot = slotOf(r, head);
        kb.storeScalar(kb.f32(lowest), maxima, {slot});
        kb.storeScalar(kb.f32(0.0), weights, {slot});
        Value queryHead = kb.add(kb.mul(kvHead, group), head);
        eachChunk([&](Value d) {
          kb.store(kb.fill(0.0, 1, 16), sums, {slot, d}, {1, 16});
          kb.store(loadInSlotOrder(kb, cache, query, {kb.add(first, r), queryHead, d}, {1, 1, 16}),
                   ordered, {slot, d}, {1, 16});
        });
      });
    });
  }

  void finish() {
    kb.forLoop(kb.index(0), rowCount(), 1, [&](Value r) {
      kb.forLoop(kb.index(0), kb.index(group), 1, [&](Value head) {
        Value slot = slotOf(r, head);
        Value inverse = kb.divf(kb.f32(1.0), kb.loadScalar(weights, {slot}));
        Value outHead = kb.add(kb.mul(kvHead, group), head);
        eachChunk([&](Value d) {
          Value sum = loadFromSlotOrder(kb, cache, sums, {slot, d}, {1, 16});
          Value mean =
              kb.map(sum, 1, 16, [&](ValueRange args) { return kb.mulf(args[0], inverse); });
          kb.store(mean, out, {kb.add(first, r), outHead, d}, {1, 1, 16});
        });
      });
    });
  }

  void eachChunk(function_ref<void(Value)> body) {
    kb.forLoop(kb.index(0), kb.index(shape.dims), 16, body);
  }

  //===- Blocks
  /// Blocks that any row of the run attends to, ascending; `takers` lists the rows.
  void eachBlock(function_ref<void(Value)> body) {
    Value blocks = kb.add(kb.div(lastPosition, pageTokens), 1);
    if (!selection) {
      kb.forLoop(kb.index(0), blocks, 1, [&](Value block) {
        listTakers([&](Value r) {
          return kb.atLeast(kb.div(batch.position(kb.add(first, r)), pageTokens), block);
        });
        body(block);
      });
      return;
    }
    Value most = kb.min(blocks, kb.mul(rowCount(), shape.selected));
    Value end = kb.index(INT32_MAX);
    kb.forLoop(kb.index(0), most, 1, [&](Value) {
      Value block = kb.forLoop(kb.index(0), rowCount(), 1, end, [&](Value r, ValueRange carried) {
        return Values{kb.min(carried[0], nextOf(r))};
      })[0];
      kb.when(kb.less(block, end), [&] {
        listTakers([&](Value r) { return kb.equal(nextOf(r), block); });
        body(block);
      });
    });
  }

  /// The next block of a row's selection; past its end the largest integer.
  Value nextOf(Value r) {
    Value cursor = kb.loadIndex(cursors, {r});
    Value inside = kb.less(cursor, kb.index(shape.selected));
    Value at = kb.min(cursor, kb.index(shape.selected - 1));
    Value block = kb.loadIndex(selection, {kb.add(first, r), kvHead, at});
    Value valid = kb.both(inside, kb.atLeast(block, kb.index(0)));
    return kb.selectf(valid, block, kb.index(INT32_MAX));
  }

  void listTakers(function_ref<Value(Value)> takes) {
    takerCount =
        kb.forLoop(kb.index(0), rowCount(), 1, kb.index(0), [&](Value r, ValueRange carried) {
          return kb.choose(
              takes(r),
              [&] {
                kb.storeScalar(r, takers, {carried[0]});
                kb.storeScalar(kb.add(kb.loadIndex(cursors, {r}), 1), cursors, {r});
                return Values{kb.add(carried[0], 1)};
              },
              [&] { return Values{carried[0]}; });
        })[0];
  }

  /// Calls `body` for every row that takes the block, with the keys that it may see.
  void eachTaker(Value block, function_ref<void(Value r, Value row, Value visible)> body) {
    kb.forLoop(kb.index(0), takerCount, 1, [&](Value i) {
      Value r = kb.loadIndex(takers, {i});
      Value row = kb.add(first, r);
      body(r, row, visibleKeys(kb, batch.position(row), block));
    });
  }

  //===- One page
  void attend(Value block) {
    Value page = kb.mul(batch.page(first, block), cache.pageBytes);
    Value keySlot = kb.add(page, kb.mul(kvHead, 2 * cache.slotBytes));
    Value visible = visibleKeys(kb, lastPosition, block);
    eachStage(Slot::Keys, keySlot, visible, [&](Value token, Value stage) {
      eachTaker(block, [&](Value r, Value, Value seen) {
        score(r, token, kb.min(kb.sub(seen, token), kb.index(chunk)), stage);
      });
    });
    eachTaker(block, [&](Value r, Value, Value seen) {
      kb.forLoop(kb.index(0), kb.index(group), 1,
                 [&](Value head) { softmax(slotOf(r, head), seen); });
    });
    eachStage(Slot::Values, kb.add(keySlot, cache.slotBytes), visible,
              [&](Value token, Value stage) {
                eachTaker(block, [&](Value r, Value, Value seen) {
                  weigh(r, token, kb.min(kb.sub(seen, token), kb.index(chunk)), stage);
                });
              });
  }

  void eachStage(Slot slot, Value offset, Value visible,
                 function_ref<void(Value token, Value stage)> body) {
    kb.pipeline(kb.index(0), visible, chunk, [&](Value token) {
      kb.role("dequantise", [&] {
        Value stage = kb.acquire(ring);
        emitDequantise(kb, cache, slot, shape.dims, pool, offset, token, chunk, stage);
        kb.commit(ring);
      });
      kb.role(slot == Slot::Keys ? "score" : "weigh", [&] {
        Value stage = kb.wait(ring);
        body(token, stage);
        kb.release(ring);
      });
    });
  }

  /// Products of a row's query heads with `limit` keys of a stage.
  void score(Value r, Value token, Value limit, Value stage) {
    kb.forLoop(kb.index(0), kb.index(group), heads, [&](Value head) {
      kb.forLoop(kb.index(0), limit, keys, [&](Value key) {
        Value slot = slotOf(r, head);
        Values dots = emitDots(kb, stage, key, keys, ordered, slot, heads, lanes);
        for (int64_t h = 0; h < heads; ++h)
          kb.store(dots[h], scores, {kb.add(slot, h), kb.add(token, key)}, {1, keys});
      });
    });
  }

  /// Turns a row of scores into weights, and rescales what the row has summed so far. Keys that the
  /// row does not see are left out by their number, whatever their bytes are.
  void softmax(Value slot, Value seen) {
    Value column = kb.iota(16), scale = kb.f32(shape.scale);
    auto load = [&](Value key) { return kb.load(scores, {slot, key}, {1, 16}, 1, 16); };
    Value best = kb.forLoop(
        kb.index(0), seen, 16, kb.fill(lowest, 1, 16), [&](Value key, ValueRange carried) {
          Value left = kb.toI32(kb.sub(seen, key));
          return Values{kb.map({load(key), carried[0], column}, 1, 16, [&](ValueRange args) {
            Value x = kb.mulf(args[0], scale);
            Value larger = kb.maxf(x, args[1]);
            return kb.selectf(kb.less(args[2], left), larger, args[1]);
          })};
        })[0];
    Value before = kb.loadScalar(maxima, {slot});
    Value now = kb.maxf(kb.extract(kb.reduce(tile::ReduceKind::Max, best), 0, 0), before);
    Value total =
        kb.forLoop(kb.index(0), seen, 16, kb.fill(0.0, 1, 16), [&](Value key, ValueRange carried) {
          Value left = kb.toI32(kb.sub(seen, key));
          Value weight = kb.map({load(key), column}, 1, 16, [&](ValueRange args) {
            Value power = kb.expf(kb.subf(kb.mulf(args[0], scale), now));
            return kb.selectf(kb.less(args[1], left), power, kb.f32(0.0));
          });
          kb.store(weight, scores, {slot, key}, {1, 16});
          return Values{kb.map({carried[0], weight}, 1, 16,
                               [&](ValueRange args) { return kb.addf(args[0], args[1]); })};
        })[0];
    Value keep = kb.expf(kb.subf(before, now));
    Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, total), 0, 0);
    kb.storeScalar(now, maxima, {slot});
    kb.storeScalar(kb.addf(kb.mulf(kb.loadScalar(weights, {slot}), keep), sum), weights, {slot});
    eachChunk([&](Value d) {
      Value old = kb.load(sums, {slot, d}, {1, 16}, 1, 16);
      kb.store(kb.map(old, 1, 16, [&](ValueRange args) { return kb.mulf(args[0], keep); }), sums,
               {slot, d}, {1, 16});
    });
  }

  /// Adds `limit` values of a stage, weighted, to a row's sums: one chain over ascending keys.
  void weigh(Value r, Value token, Value limit, Value stage) {
    kb.forLoop(kb.index(0), kb.index(group), valueHeads, [&](Value head) {
      Value slot = slotOf(r, head);
      kb.forLoop(kb.index(0), kb.index(shape.dims), valueDims, [&](Value d) {
        const int64_t box[] = {valueHeads, valueDims};
        Value start = kb.load(sums, {slot, d}, box, valueHeads, valueDims);
        Value sum = kb.forLoop(kb.index(0), limit, 1, start, [&](Value key, ValueRange carried) {
          Value v = kb.load(stage, {key, d}, {1, valueDims}, 1, valueDims);
          Value p = kb.load(scores, {slot, kb.add(token, key)}, {valueHeads, 1}, valueHeads, 1);
          return Values{kb.fma(p, v, carried[0])};
        })[0];
        kb.store(sum, sums, {slot, d}, box);
      });
    });
  }

  KernelBuilder &kb;
  const CachePages &cache;
  const AttentionShape &shape;
  const int64_t tileRows, group, keys, heads, valueHeads, valueDims, chunk, lanes;
  BatchRows batch;
  Value query, pool, selection, out;
  Value scores, sums, ordered, maxima, weights, cursors, takers, ring;
  Value kvHead, first, last, lastPosition, takerCount;
};

LogicalResult lower(StepLowering &step, Value query, m3::CacheType cacheType, Value selection,
                    int64_t layer, double scale, Value result) {
  CachePages cache(step, cacheType);
  int64_t width = cast<RankedTensorType>(query.getType()).getShape().back();
  AttentionShape shape = {width / cacheType.getHeadDim(), cacheType.getKvHeads(),
                          cacheType.getHeadDim(), 0, scale};
  if (selection)
    shape.selected = cast<RankedTensorType>(selection.getType()).getShape().back();
  Schedule schedule = step.schedule("attention", {{"group", shape.group()}, {"dims", shape.dims}});
  std::string name = formatv("attention_{0}_{1}h{2}x{3}_k{4}_s{5}{6}", cache.spell(), shape.heads,
                             shape.kvHeads, shape.dims, shape.selected,
                             llvm::utohexstr(llvm::bit_cast<uint64_t>(scale)), spell(schedule));
  MLIRContext *context = step.module.getContext();
  tile::KernelOp kernel = step.kernel(name, [&] {
    Type f32 = Float32Type::get(context), i32 = IntegerType::get(context, 32);
    constexpr int64_t any = ShapedType::kDynamic;
    auto view = [&](ArrayRef<int64_t> sizes, Type element) {
      return tile::ViewType::get(context, sizes, element, tile::Space::Global);
    };
    SmallVector<Type> types = BatchRows::parameterTypes(context);
    types.append(
        {view({any, shape.heads, shape.dims}, f32), view({any}, IntegerType::get(context, 8))});
    if (shape.selected)
      types.push_back(view({any, shape.kvHeads, shape.selected}, i32));
    types.push_back(view({any, shape.heads, shape.dims}, f32));
    KernelBuilder kb(step.module, name, "attention", schedule, types);
    AttentionKernel(kb, cache, shape, schedule).emit();
    return kb.finish();
  });
  SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
  arguments.append({{step.bufferOf(query), planir::Access::Read},
                    {step.pool(cache.kvOffsets[layer]), planir::Access::Read}});
  if (selection)
    arguments.push_back({step.bufferOf(selection), planir::Access::Read});
  arguments.push_back({step.makeBuffer(result, "attention"), planir::Access::Write});
  step.launch(kernel, arguments,
              {{int64_t(llvm::divideCeil(step.rows, schedule.at("rows"))), 0}, {shape.kvHeads, 0}},
              formatv("layers.{0}.attention", layer).str());
  return success();
}

} // namespace

LogicalResult lowerSparseAttention(Operation *op, StepLowering &step) {
  auto attention = cast<m3::SparseAttentionOp>(op);
  return lower(step, attention.getQuery(), attention.getCache().getType(), attention.getBlocks(),
               attention.getLayer(), attention.getScale().convertToDouble(), attention.getResult());
}

LogicalResult lowerDenseAttention(Operation *op, StepLowering &step) {
  auto attention = cast<m3::DenseAttentionOp>(op);
  return lower(step, attention.getQuery(), attention.getCache().getType(), {}, attention.getLayer(),
               attention.getScale().convertToDouble(), attention.getResult());
}

} // namespace m3c::kernel
