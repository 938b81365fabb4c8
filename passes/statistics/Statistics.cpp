#include "passes/statistics/Statistics.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

namespace m3c {
namespace {

struct Count {
  uint64_t value = 0;
  const char *description = "";
};

/// The counts of this process by "pass.name".
struct Counts {
  std::mutex mutex;
  std::map<std::string, Count> byName;
};

Counts &counts() {
  static Counts all;
  return all;
}

Count &countOf(const mlir::Pass &pass, const char *name, const char *description) {
  Count &count = counts().byName[(pass.getArgument() + "." + name).str()];
  count.description = description;
  return count;
}

} // namespace

PassStatistic &PassStatistic::operator+=(uint64_t more) {
  std::lock_guard lock(counts().mutex);
  countOf(*owner, name, description).value += more;
  return *this;
}

void PassStatistic::updateMax(uint64_t value) {
  std::lock_guard lock(counts().mutex);
  Count &count = countOf(*owner, name, description);
  count.value = std::max(count.value, value);
}

void printPassStatistics(llvm::raw_ostream &out) {
  std::lock_guard lock(counts().mutex);
  for (const auto &[name, count] : counts().byName)
    if (count.value)
      out << name << " = " << count.value << " (" << count.description << ")\n";
}

} // namespace m3c
