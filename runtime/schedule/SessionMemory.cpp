#include "runtime/schedule/SessionMemory.h"

#include "runtime/base/Error.h"
#include "runtime/base/Progress.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace m3c {

uint64_t pageTokens(const Engine &engine) { return engine.tables().cache()->page_tokens(); }

uint64_t pagesFor(uint64_t tokens, uint64_t perPage) { return (tokens + perPage - 1) / perPage; }

uint64_t longest(const Engine &engine, const SessionOptions &options) {
  uint64_t tokens = std::min<uint64_t>(engine.tables().model()->max_positions(),
                                       options.pages * pageTokens(engine));
  return options.maxTokens ? std::min(tokens, options.maxTokens) : tokens;
}

StepLimits limitsOf(const Engine &engine, const SessionOptions &options) {
  uint64_t blocks = pagesFor(longest(engine, options), pageTokens(engine));
  return {options.maxSequences, blocksBucket(blocks)};
}

Ledger Session::ledger(const Engine &engine, const SessionOptions &options) {
  const plan::Tables &tables = engine.tables();
  StepLimits limits = limitsOf(engine, options);
  Ledger ledger;
  ledger.add("weights", Weights::bytesNeeded(tables, engine.target()));
  ledger.add("code", engine.codeBytes());
  ledger.add("KV cache", options.pages * tables.cache()->page_bytes());
  ledger.add("arena", StepGraphs::arenaBytes(engine.target(), limits));
  ledger.add("step arrays", StepGraphs::arrayBytes(engine.target(), limits));
  return ledger;
}

namespace {

/// Bytes that are yet to be allocated for a session with so many pages.
uint64_t neededBytes(const Engine &engine, SessionOptions options, uint64_t pages) {
  options.pages = pages;
  uint64_t needed = Session::ledger(engine, options).total() - engine.codeBytes();
  if (engine.hasWeights())
    needed -= Weights::bytesNeeded(engine.tables(), engine.target());
  return needed;
}

/// The largest cache that fits, in pages; 0 where none does.
uint64_t fittingPages(const Engine &engine, const SessionOptions &options, uint64_t available) {
  uint64_t fits = 0, tooMany = options.pages;
  while (tooMany - fits > 1) {
    uint64_t middle = fits + (tooMany - fits) / 2;
    (neededBytes(engine, options, middle) <= available ? fits : tooMany) = middle;
  }
  return fits;
}

struct CacheStorage {
  plan::CacheType type;
  const char *option;
  uint64_t slotBytes; ///< of 128 tokens of a lane of 128 elements
};
constexpr CacheStorage storages[] = {{plan::CacheType::Bf16, "bf16", 32768},
                                     {plan::CacheType::Fp8, "fp8", 16384},
                                     {plan::CacheType::Nvfp4, "nvfp4", 9216}};

/// "a cache of 26 pages (3328 tokens) fits: --kv-pages 26, one sequence of 3328 or 4 of 768; …".
std::string whatFits(const Engine &engine, const SessionOptions &options, uint64_t pages) {
  const plan::Cache &cache = *engine.tables().cache();
  uint64_t tokens = pages * cache.page_tokens();
  std::string text =
      fmt::format("a cache of {} pages ({} tokens) fits: --kv-pages {}", pages, tokens, pages);
  if (options.maxSequences > 1)
    text += fmt::format(", one sequence of {} tokens or {} of {}", tokens, options.maxSequences,
                        pages / options.maxSequences * cache.page_tokens());
  std::vector<std::string> others;
  for (const CacheStorage &storage : storages)
    if (storage.slotBytes < cache.slot_bytes())
      others.push_back(fmt::format(
          "{} tokens with --kv {}",
          pages * cache.slot_bytes() / storage.slotBytes * cache.page_tokens(), storage.option));
  if (!others.empty())
    text += fmt::format("; compiled for a smaller cache, about {}", fmt::join(others, ", "));
  return text;
}

} // namespace

void Session::checkMemory(const Engine &engine, const SessionOptions &options) {
  uint64_t needed = neededBytes(engine, options, options.pages);
  uint64_t available = engine.device().availableBytes();
  if (needed <= available)
    return;
  uint64_t page = engine.tables().cache()->page_bytes(), rest = needed - options.pages * page;
  uint64_t fitting = fittingPages(engine, options, available);
  throw Error(
      fmt::format("not enough memory: {} needed, {} free", byteText(needed), byteText(available)),
      engine.device().info().name,
      fmt::format("{} of weights and activations, {} of cache ({} pages of {})", byteText(rest),
                  byteText(needed - rest), options.pages, byteText(page)),
      fitting ? whatFits(engine, options, fitting)
              : fmt::format("no cache fits beside the weights, which need {} with activations; use "
                            "a device with more memory",
                            byteText(neededBytes(engine, options, 1) - page)));
}

} // namespace m3c
