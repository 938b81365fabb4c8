#include "runtime/schedule/Session.h"

#include "runtime/base/Error.h"
#include "runtime/plan/List.h"
#include "runtime/schedule/SessionMemory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <utility>

namespace m3c {

namespace {

SessionOptions checked(const Engine &engine, const SessionOptions &options) {
  if (!engine.hasWeights())
    throw Error("a session needs bound weights", "session");
  if (options.maxSequences == 0 || options.maxSequences > 65536)
    throw Error(fmt::format("{} sequences are not possible", options.maxSequences), "session",
                "1 to 65536 may be alive at once");
  return options;
}

} // namespace

Session::Session(const Engine &engine, const SessionOptions &given)
    : engine(engine), options(checked(engine, given)), stream(engine.device().createStream()),
      pool(engine.device(), *stream,
           {given.pages, engine.tables().cache()->page_bytes(), given.shuffleSeed, given.poison}),
      graphs(engine, pool.memory(), limitsOf(engine, given)),
      planner(engine.target(), given.chunk, given.maxSequences), sequences(given.maxSequences) {
  pending.reserve(options.maxSequences);
  step.slices.reserve(options.maxSequences);
  bucketSteps.resize(engine.target().buckets()->size());
}

uint64_t Session::stepsRun() const {
  return std::accumulate(bucketSteps.begin(), bucketSteps.end(), uint64_t(0));
}

uint64_t Session::longestSequence() const { return longest(engine, options); }

SequenceId Session::create() {
  for (SequenceId id = 0; id < sequences.size(); ++id) {
    Sequence &sequence = sequences[id];
    if (sequence.alive)
      continue;
    sequence.alive = true;
    sequence.length = 0;
    sequence.pages.reserve(pagesFor(longestSequence(), pageTokens(engine)));
    return id;
  }
  throw Error("no room for another sequence", "session",
              fmt::format("{} are alive, the session was made for {}", sequences.size(),
                          options.maxSequences),
              "release one, or make the session for more");
}

const Session::Sequence &Session::alive(SequenceId id) const {
  if (id >= sequences.size() || !sequences[id].alive)
    throw Error(fmt::format("there is no sequence {}", id), "session");
  return sequences[id];
}

Session::Sequence &Session::alive(SequenceId id) {
  return const_cast<Sequence &>(std::as_const(*this).alive(id));
}

void Session::release(SequenceId id) {
  Sequence &sequence = alive(id);
  for (int32_t page : sequence.pages)
    pool.release(page);
  sequence.pages.clear();
  sequence.alive = false;
}

void Session::checkTokens(const Append &append) const {
  int32_t vocab = int32_t(engine.tables().model()->vocab());
  for (size_t i = 0; i < append.tokens.size(); ++i)
    if (append.tokens[i] < 0 || append.tokens[i] >= vocab)
      throw Error(fmt::format("token id {} is out of range", append.tokens[i]),
                  fmt::format("token {} of sequence {}", i, append.sequence),
                  fmt::format("ids of this model are 0 to {}", vocab - 1));
}

void Session::checkLength(const Sequence &sequence, uint64_t more) const {
  uint64_t limit = longestSequence();
  if (more <= limit && sequence.length <= limit - more)
    return;
  uint64_t model = engine.tables().model()->max_positions();
  throw Error(fmt::format("a sequence of {} tokens is too long", sequence.length + more), "session",
              fmt::format("the longest that fits is {} tokens ({})", limit,
                          limit == model ? "the model's context" : "the size of the cache"),
              limit == model ? "shorten the prompt or ask for fewer tokens"
                             : "use more --kv-pages");
}

void Session::checkAppends(std::span<const Append> appends) {
  if (appends.size() > sequences.size())
    throw Error(fmt::format("{} appends for {} sequences", appends.size(), sequences.size()),
                "session", "each sequence may be named once");
  for (Sequence &sequence : sequences)
    sequence.busy = false;
  uint64_t pages = 0;
  for (const Append &append : appends) {
    Sequence &sequence = alive(append.sequence);
    if (std::exchange(sequence.busy, true))
      throw Error(fmt::format("sequence {} is named twice", append.sequence), "session");
    checkTokens(append);
    checkLength(sequence, append.tokens.size());
    pages += pagesFor(sequence.length + append.tokens.size(), pageTokens(engine)) -
             sequence.pages.size();
  }
  checkPages(pages);
}

void Session::checkPages(uint64_t pages) const {
  if (pages > pool.freePages())
    throw Error("the KV cache is full", "session",
                fmt::format("{} more pages of {} tokens are needed, {} of {} are free", pages,
                            pageTokens(engine), pool.freePages(), pool.pageCount()),
                "use more --kv-pages, fewer sequences at once, or shorter ones");
}

/// Takes pages for more tokens; the first of the new ones.
size_t Session::addBlocks(Sequence &sequence, uint64_t tokens) {
  checkLength(sequence, tokens);
  size_t first = sequence.pages.size();
  checkPages(pagesFor(sequence.length + tokens, pageTokens(engine)) - first);
  takePages(sequence, sequence.length + tokens);
  sequence.length += tokens;
  return first;
}

/// Where a page lies in the pool, in bytes.
uint64_t Session::placeOf(int32_t page) const {
  return uint64_t(page) * engine.tables().cache()->page_bytes();
}

void Session::extendWith(SequenceId id, uint64_t tokens, const PageFiller &fill) {
  Sequence &sequence = alive(id);
  std::vector<std::byte> bytes(engine.tables().cache()->page_bytes());
  for (size_t page = addBlocks(sequence, tokens); page < sequence.pages.size(); ++page) {
    fill(page, bytes);
    stream->write(pool.memory(), placeOf(sequence.pages[page]), bytes);
  }
}

void Session::extendMadeUp(SequenceId id, uint64_t tokens) {
  Sequence &sequence = alive(id);
  size_t first = addBlocks(sequence, tokens);
  // Bytes 0x20 to 0x3f: finite and of moderate size in every cache format, scales positive. After
  // some pages the device repeats them, which is faster than to send more.
  constexpr size_t distinct = 61;
  uint64_t pageBytes = engine.tables().cache()->page_bytes();
  std::vector<std::byte> bytes(pageBytes);
  uint32_t state = id + 1;
  for (size_t page = first; page < sequence.pages.size(); ++page) {
    uint64_t place = placeOf(sequence.pages[page]);
    if (page - first >= distinct) {
      stream->copy(pool.memory(), place, pool.memory(), placeOf(sequence.pages[page - distinct]),
                   pageBytes);
      continue;
    }
    for (std::byte &byte : bytes)
      byte = std::byte(0x20 | ((state = state * 1664525 + 1013904223) >> 27));
    stream->write(pool.memory(), place, bytes);
  }
  stream->synchronize();
}

double Session::timeReplay(hal::Graph &graph) {
  auto begun = std::chrono::steady_clock::now();
  stream->replay(graph);
  stream->synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::vector<double> Session::timeLaunches(std::span<const uint32_t> launches, uint32_t count,
                                          unsigned samples) {
  if (blocks == 0 || launches.empty() || count < 2)
    throw Error("there are no launches to time", "session", "two or more of a step that has run",
                "run a step first, and name launches of its bucket");
  std::unique_ptr<hal::Graph> before = graphs.leading(ranBucket, blocks, launches.back());
  // The difference leaves out what starting a graph and waiting for it takes.
  std::unique_ptr<hal::Graph> one = graphs.chain(ranBucket, blocks, launches, 1),
                              all = graphs.chain(ranBucket, blocks, launches, count);
  timeReplay(*before);
  timeReplay(*all);
  std::vector<double> seconds;
  for (unsigned i = 0; i < samples; ++i) {
    double least = timeReplay(*one);
    seconds.push_back(std::max(0.0, timeReplay(*all) - least) / (count - 1));
  }
  return seconds;
}

void Session::takePages(Sequence &sequence, uint64_t length) {
  while (sequence.pages.size() < pagesFor(length, pageTokens(engine)))
    sequence.pages.push_back(*pool.allocate()); // checkAppends counted them
}

void Session::run(std::span<const Append> appends, const LogitSink &logits,
                  const TraceSink &trace) {
  checkAppends(appends);
  pending.clear();
  for (const Append &append : appends)
    pending.push_back({append.tokens.size(), 0, append.want});
  while (planner.next(pending, step)) {
    fillStep(appends);
    runStep(bool(trace));
    ++bucketSteps[step.bucket];
    for (const Slice &slice : step.slices) {
      alive(appends[slice.append].sequence).length += slice.count;
      pending[slice.append].done += slice.count;
    }
    deliver(appends, logits, trace);
  }
}

void Session::fillStep(std::span<const Append> appends) {
  uint64_t longestNow = 0;
  for (const Slice &slice : step.slices) {
    Sequence &sequence = alive(appends[slice.append].sequence);
    takePages(sequence, sequence.length + slice.count);
    longestNow = std::max<uint64_t>(longestNow, sequence.pages.size());
  }
  blocks = blocksBucket(longestNow);

  int32_t *counts = graphs.array(plan::BatchArray::Counts);
  int32_t *ids = graphs.array(plan::BatchArray::TokenIds);
  int32_t *positions = graphs.array(plan::BatchArray::Positions);
  int32_t *rowSequences = graphs.array(plan::BatchArray::SequenceOfRow);
  int32_t *table = graphs.array(plan::BatchArray::PageTable);
  int32_t *logitRows = graphs.array(plan::BatchArray::LogitRows);
  int32_t row = 0, logitRow = 0;
  for (size_t s = 0; s < step.slices.size(); ++s) {
    const Slice &slice = step.slices[s];
    const Append &append = appends[slice.append];
    const Sequence &sequence = alive(append.sequence);
    int32_t *entries = std::copy(sequence.pages.begin(), sequence.pages.end(), table + s * blocks);
    std::fill(entries, table + (s + 1) * blocks, 0);
    for (uint32_t i = 0; i < slice.count; ++i, ++row) {
      ids[row] = append.tokens[slice.begin + i];
      positions[row] = int32_t(sequence.length + i);
      rowSequences[row] = int32_t(s);
      if (i >= slice.count - slice.logits)
        logitRows[logitRow++] = row;
    }
  }
  counts[0] = row;
  counts[1] = int32_t(step.slices.size());
  counts[2] = logitRow;
  counts[3] = int32_t(blocks);
}

void Session::runStep(bool traced) {
  ranBucket = step.bucket;
  if (!options.record) {
    graphs.start(*stream, step.bucket, blocks, traced);
    stream->synchronize();
    return;
  }
  hal::Graph &graph = graphs.graph(step.bucket, blocks, traced);
  if (!stepTimes) {
    stream->replay(graph);
    stream->synchronize();
    return;
  }
  nodeTimes.resize(graph.nodes());
  stream->replayTimed(graph, nodeTimes);
  stepTimes(step.bucket, std::span(nodeTimes).subspan(graphs.leadingNodes()), step);
}

void Session::deliver(std::span<const Append> appends, const LogitSink &logits,
                      const TraceSink &trace) {
  uint32_t logitRow = 0;
  for (const Slice &slice : step.slices)
    for (uint32_t i = slice.count - slice.logits; i < slice.count; ++i, ++logitRow) {
      std::span<const float> row = graphs.logits(step.bucket, logitRow, *stream);
      const Append &append = appends[slice.append];
      checkLogits(row, append.sequence, alive(append.sequence).length - slice.count + i);
      if (logits)
        logits(slice.append, slice.begin + i, row);
    }
  if (trace)
    deliverTrace(trace);
}

void Session::deliverTrace(const TraceSink &trace) {
  auto taps = plan::list(engine.bucket(step.bucket).taps());
  for (uint32_t t = 0; t < taps.size(); ++t) {
    uint32_t row = 0;
    for (const Slice &slice : step.slices)
      for (uint32_t i = 0; i < slice.count; ++i, ++row)
        trace({taps[t]->kind(), taps[t]->layer(), slice.append, slice.begin + i,
               graphs.tapRow(step.bucket, t, row)});
  }
}

void Session::checkLogits(std::span<const float> row, SequenceId sequence,
                          uint64_t position) const {
  uint32_t bad = 0;
  for (float value : row)
    bad |= (std::bit_cast<uint32_t>(value) & 0x7f800000) == 0x7f800000;
  if (!bad)
    return;
  auto first = std::find_if(row.begin(), row.end(), [](float value) {
    return (std::bit_cast<uint32_t>(value) & 0x7f800000) == 0x7f800000;
  });
  throw Error(
      fmt::format("logits are not finite after step {}", stepsRun()),
      fmt::format("sequence {}, position {}, token id {}", sequence, position, first - row.begin()),
      fmt::format("the value is {}", *first),
      "check the weights with `m3c check`; sound weights never give this");
}

} // namespace m3c
