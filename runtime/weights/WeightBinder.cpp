#include "runtime/weights/WeightBinder.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/checkpoint/Dtype.h"
#include "runtime/plan/List.h"
#include "runtime/weights/CheckpointSource.h"
#include "runtime/weights/DeviceMaker.h"
#include "runtime/weights/Repack.h"
#include "runtime/weights/Staging.h"
#include "runtime/weights/SyntheticSource.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <thread>

namespace m3c {

namespace {

constexpr uint64_t bufferAlignment = 256; // bytes; whole cache lines and vectors
constexpr uint64_t taskBytes = 2 << 20;   // stored bytes that one task reads
constexpr uint64_t stageBytes = 64 << 20; // that travel to a device at once, at least

uint64_t alignUp(uint64_t value) {
  return (value + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
}

/// A part of one piece: bytes [begin, end) of the stored tensor.
struct Task {
  const plan::WeightBuffer *buffer;
  const plan::WeightPiece *piece;
  uint64_t destination; ///< of the buffer in the allocation
  uint64_t begin, end;
};

bool isPanelled(const plan::WeightBuffer &buffer) {
  switch (buffer.recipe()) {
  case plan::Recipe::PanelWords:
  case plan::Recipe::PanelScales:
  case plan::Recipe::FragmentWords:
  case plan::Recipe::FragmentScales:
    return true;
  default:
    return false;
  }
}

uint64_t storedRowBytes(const plan::WeightPiece &piece) {
  return storedBytes(piece) / uint64_t(piece.shape()->Get(0));
}

void addTasks(const plan::WeightBuffer &buffer, uint64_t destination, std::vector<Task> &tasks) {
  for (const plan::WeightPiece *piece : plan::list(buffer.pieces())) {
    uint64_t all = storedBytes(*piece), step = taskBytes;
    if (isPanelled(buffer)) { // whole panels
      uint64_t panel = 16 * storedRowBytes(*piece);
      step = std::max<uint64_t>(1, taskBytes / panel) * panel;
    }
    for (uint64_t begin = 0; begin < all; begin += step)
      tasks.push_back({&buffer, piece, destination, begin, std::min(all, begin + step)});
  }
}

/// Elements of BF16 or F32 as F32.
void widen(Dtype dtype, std::span<const std::byte> from, std::byte *to) {
  if (dtype == Dtype::F32) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  for (size_t i = 0; i < from.size() / 2; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from.data() + 2 * i, 2);
    float value = formats::bf16ToFloat(bits);
    std::memcpy(to + 4 * i, &value, 4);
  }
}

/// One panel, number `index` of the buffer.
void repackPanel(const plan::WeightBuffer &buffer, std::span<const std::byte> rows,
                 uint64_t rowBytes, uint64_t index, std::byte *memory) {
  uint64_t panel = 16 * rowBytes, abreast = buffer.abreast();
  std::byte *to = memory + index / abreast * abreast * panel;
  switch (buffer.recipe()) {
  case plan::Recipe::PanelWords:
    return repackWords(rows, rowBytes, to + index % abreast * 64, abreast);
  case plan::Recipe::PanelScales:
    return repackBytes(rows, rowBytes, to + index % abreast * 16, abreast);
  case plan::Recipe::FragmentWords:
    return repackFragmentWords(rows, rowBytes, buffer.bits(), to);
  default:
    return repackFragmentScales(rows, rowBytes, buffer.bits(), to);
  }
}

void repackPanels(const Task &task, std::span<const std::byte> stored, std::byte *buffer) {
  uint64_t rowBytes = storedRowBytes(*task.piece), panel = 16 * rowBytes;
  for (uint64_t at = 0; at < stored.size(); at += panel) {
    uint64_t index =
        task.piece->first_panel() + (task.begin + at) / panel * uint64_t(task.piece->panel_step());
    std::span<const std::byte> rows = stored.subspan(at, std::min(panel, stored.size() - at));
    repackPanel(*task.buffer, rows, rowBytes, index, buffer);
  }
}

/// `buffer` is where the task's weight buffer begins.
void place(const Task &task, std::span<const std::byte> stored, std::byte *buffer) {
  Dtype dtype = *parseDtype(task.piece->dtype()->str());
  std::byte *flat = buffer + task.piece->dest_offset();
  switch (task.buffer->recipe()) {
  case plan::Recipe::Raw:
    std::memcpy(flat + task.begin, stored.data(), stored.size());
    return;
  case plan::Recipe::PanelWords:
  case plan::Recipe::PanelScales:
  case plan::Recipe::FragmentWords:
  case plan::Recipe::FragmentScales:
    repackPanels(task, stored, buffer);
    return;
  case plan::Recipe::ToF32:
  case plan::Recipe::Scalar:
  case plan::Recipe::Reciprocal: {
    std::byte *to = flat + task.begin * 8 / dtypeBits(dtype) * 4;
    widen(dtype, stored, to);
    if (task.buffer->recipe() == plan::Recipe::Reciprocal)
      for (size_t i = 0; i < stored.size() * 8 / dtypeBits(dtype); ++i) {
        float value;
        std::memcpy(&value, to + 4 * i, 4);
        value = 1 / value;
        std::memcpy(to + 4 * i, &value, 4);
      }
    return;
  }
  }
}

/// Runs tasks on several threads; keeps the fault of the earliest task.
class Loader {
public:
  Loader(const std::vector<Task> &tasks, const WeightSource &source, unsigned threads,
         const WeightProgress &progress)
      : source(source), threads(threads), progress(progress) {
    for (const Task &task : tasks)
      total += task.end - task.begin;
  }

  /// `memory` is where destination 0 of the tasks lies.
  void run(std::span<const Task> tasks, std::byte *memory) {
    onThreads(tasks.size(), [&] { work(tasks, memory); });
    if (fault)
      std::rethrow_exception(fault);
  }

  /// Zero bytes, by all threads: one alone is slower than the way to a GPU.
  void clear(std::span<std::byte> memory) {
    size_t pieces = (memory.size() + taskBytes - 1) / taskBytes;
    onThreads(pieces, [&] {
      for (size_t i; (i = next++) < pieces;) {
        std::span<std::byte> rest = memory.subspan(i * taskBytes);
        std::memset(rest.data(), 0, std::min<size_t>(rest.size(), taskBytes));
      }
    });
  }

private:
  /// Runs `part` on as many threads as there is work for; each takes items by `next`.
  template <typename Part> void onThreads(size_t items, Part part) {
    next = 0;
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < std::min<size_t>(threads, items); ++i)
      helpers.emplace_back(part);
    part();
    for (std::thread &helper : helpers)
      helper.join();
  }

  void work(std::span<const Task> tasks, std::byte *memory) {
    std::vector<std::byte> stored;
    for (size_t i; (i = next++) < tasks.size() && i < faultTask;) {
      try {
        const Task &task = tasks[i];
        stored.resize(task.end - task.begin);
        source.read(*task.piece, task.begin, stored);
        place(task, stored, memory + task.destination);
        report(task);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (i < faultTask) {
          faultTask = i;
          fault = std::current_exception();
        }
      }
    }
  }

  void report(const Task &task) {
    std::lock_guard lock(mutex);
    done += task.end - task.begin;
    if (progress)
      progress(done, total, task.piece->tensor()->string_view());
  }

  const WeightSource &source;
  const unsigned threads;
  const WeightProgress &progress;
  std::atomic<size_t> next{0}, faultTask{SIZE_MAX};
  std::mutex mutex;
  uint64_t done = 0, total = 0;
  std::exception_ptr fault;
};

} // namespace

uint64_t storedBytes(const plan::WeightPiece &piece) {
  uint64_t bits = dtypeBits(*parseDtype(piece.dtype()->str()));
  for (int64_t dimension : plan::list(piece.shape()))
    bits *= uint64_t(dimension);
  return bits / 8;
}

std::unique_ptr<WeightSource> openWeights(const std::string &where, const plan::Tables &tables) {
  constexpr std::string_view prefix = "synthetic:";
  if (!where.starts_with(prefix))
    return std::make_unique<CheckpointSource>(where);
  std::string_view digits = std::string_view(where).substr(prefix.size());
  uint64_t seed = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (code != std::errc() || end != digits.data() + digits.size())
    throw Error(fmt::format("'{}' is no seed for synthetic weights", digits), where,
                "a number from 0 to 2^64 − 1 is needed", "write for instance synthetic:1",
                ExitCode::Usage);
  return std::make_unique<SyntheticSource>(seed, tables);
}

/// Which buffers the launches of a target read.
static std::vector<bool> buffersOf(const plan::Tables &tables, const plan::Target &target) {
  std::vector<bool> used(plan::list(tables.weights()).size(), false);
  for (const plan::Bucket *bucket : plan::list(target.buckets()))
    for (const plan::Launch *launch : plan::list(bucket->launches()))
      for (const plan::Arg *arg : plan::list(launch->args()))
        if (arg->kind() == plan::ArgKind::Weight)
          used.at(arg->index()) = true;
  return used;
}

Weights::Weights(const plan::Tables &tables, const plan::Target &target) {
  std::vector<bool> used = buffersOf(tables, target);
  for (const plan::WeightBuffer *buffer : plan::list(tables.weights())) {
    bool take = used[offsets.size()];
    offsets.push_back(take ? total : absent);
    sizes.push_back(buffer->bytes());
    total += take ? alignUp(buffer->bytes()) : 0;
  }
}

uint64_t Weights::bytesNeeded(const plan::Tables &tables, const plan::Target &target) {
  return Weights(tables, target).total;
}

namespace {

/// Consecutive buffers that travel together: tasks [begin, end), bytes [from, to) of the weights.
struct Batch {
  size_t begin, end;
  uint64_t from, to;
};

/// Whole buffers, at least `stageBytes` together, so that transfers are long and small buffers keep
/// all threads busy.
std::vector<Batch> batchesOf(std::span<const Task> tasks) {
  std::vector<Batch> batches;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task &task = tasks[i];
    bool isNew = i == 0 || task.destination != tasks[i - 1].destination;
    if (isNew && (batches.empty() || batches.back().to - batches.back().from >= stageBytes))
      batches.push_back({i, i, task.destination, 0});
    batches.back().end = i + 1;
    batches.back().to = task.destination + task.buffer->bytes();
  }
  return batches;
}

/// Into memory that the CPU cannot reach.
void loadStaged(Loader &loader, std::span<const Task> tasks, hal::Device &device,
                hal::Buffer &memory) {
  std::vector<Batch> batches = batchesOf(tasks);
  uint64_t most = 0;
  for (const Batch &batch : batches)
    most = std::max(most, batch.to - batch.from);
  if (most == 0)
    return;
  Staging staging(device, most);
  for (const Batch &batch : batches) {
    std::byte *stage = staging.stage();
    loader.clear({stage, batch.to - batch.from}); // rows that fill a panel up are zero
    loader.run(tasks.subspan(batch.begin, batch.end - batch.begin), stage - batch.from);
    staging.send(memory, batch.from, batch.to - batch.from);
  }
  staging.finish();
}

/// Values that a rule makes up, on the device. False where the source has others, or the device no
/// kernel for it.
bool makeOnDevice(std::span<const Task> tasks, const WeightSource &source, hal::Device &device,
                  hal::Buffer &memory, const WeightProgress &progress) {
  if (tasks.empty() || !source.madeUp(*tasks.front().piece))
    return false;
  std::unique_ptr<DeviceMaker> maker = DeviceMaker::create(device);
  if (!maker)
    return false;
  constexpr uint64_t waitEvery = uint64_t(4) << 30; // bytes, some milliseconds
  uint64_t total = 0, done = 0, waited = 0;
  for (const Task &task : tasks)
    total += task.end - task.begin;
  for (const Task &task : tasks) {
    if (task.begin == 0) // the whole piece
      maker->make(memory, task.destination, *task.buffer, *task.piece, *source.madeUp(*task.piece));
    done += task.end - task.begin;
    if (done - waited >= waitEvery || done == total) {
      maker->finish();
      waited = done;
      if (progress)
        progress(done, total, task.piece->tensor()->string_view());
    }
  }
  return true;
}

} // namespace

Weights Weights::bind(const plan::Tables &tables, const plan::Target &target,
                      const WeightSource &source, hal::Device &device, unsigned threads,
                      const WeightProgress &progress) {
  Weights weights(tables, target);
  std::vector<Task> tasks;
  for (uint32_t i = 0; i < weights.offsets.size(); ++i) {
    if (weights.offsets[i] == absent)
      continue;
    const plan::WeightBuffer &buffer = *tables.weights()->Get(i);
    for (const plan::WeightPiece *piece : plan::list(buffer.pieces()))
      source.check(*piece);
    addTasks(buffer, weights.offsets[i], tasks);
  }
  weights.memory = device.allocate(weights.total, hal::MemoryKind::Device, "the weights");
  Loader loader(tasks, source, std::max(1u, threads), progress);
  if (std::byte *host = weights.memory->host())
    loader.run(tasks, host);
  else if (!makeOnDevice(tasks, source, device, *weights.memory, progress))
    loadStaged(loader, tasks, device, *weights.memory);
  return weights;
}

std::span<const std::byte> Weights::bytes(uint32_t index) const {
  return {memory->host() + offsets.at(index), size_t(sizes.at(index))};
}

} // namespace m3c
