#include "runtime/schedule/StepPlanner.h"

#include "runtime/base/Error.h"
#include "runtime/plan/List.h"

#include <algorithm>
#include <bit>

namespace m3c {

StepPlanner::StepPlanner(const plan::Target &target, uint32_t chunk, uint32_t maxAppends)
    : chunk(chunk), maxAppends(maxAppends) {
  if (chunk == 0 || maxAppends == 0)
    throw Error("chunk and batch must be at least 1", "session options", "", "", ExitCode::Usage);
  for (const plan::Bucket *bucket : plan::list(target.buckets()))
    buckets.push_back({bucket->rows(), bucket->logit_rows()});
}

bool StepPlanner::next(std::span<const Pending> pending, StepPlan &plan) const {
  plan.slices.clear();
  plan.rows = plan.logitRows = 0;
  const Size &largest = buckets.back();
  for (size_t i = 0; i < pending.size() && plan.slices.size() < maxAppends; ++i) {
    const Pending &item = pending[i];
    uint64_t count =
        std::min<uint64_t>({item.total - item.done, chunk, uint64_t(largest.rows - plan.rows)});
    uint64_t logits = item.want == Want::All ? count : 0;
    uint32_t room = largest.logitRows - plan.logitRows;
    if (logits > room)
      count = logits = room;
    if (item.want == Want::Last && count > 0 && item.done + count == item.total) {
      if (room == 0)
        --count; // the last token waits for a step that has a place for its logits
      else
        logits = 1;
    }
    if (count == 0)
      continue;
    plan.slices.push_back({uint32_t(i), item.done, uint32_t(count), uint32_t(logits)});
    plan.rows += uint32_t(count);
    plan.logitRows += uint32_t(logits);
  }
  plan.bucket = smallestBucket(plan.rows, plan.logitRows);
  return plan.rows > 0;
}

uint32_t StepPlanner::smallestBucket(uint32_t rows, uint32_t logitRows) const {
  uint32_t index = 0;
  while (buckets[index].rows < rows || buckets[index].logitRows < logitRows)
    ++index; // the largest holds every planned step
  return index;
}

uint32_t blocksBucket(uint64_t blocks) {
  return uint32_t(std::bit_ceil(std::max<uint64_t>(blocks, minimumBlocks)));
}

} // namespace m3c
