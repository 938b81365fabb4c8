#include "tools/common/ReadWeights.h"

#include "runtime/base/Progress.h"
#include "runtime/weights/WeightSource.h"

#include <memory>
#include <utility>

namespace m3c {

void readWeights(Engine &engine, const std::string &weights, const std::string &mode) {
  std::unique_ptr<WeightSource> source = openWeights(weights, engine.tables());
  Progress progress(*parseProgressMode(mode));
  bool begun = false;
  engine.bindWeights(*source, [&](uint64_t done, uint64_t total, std::string_view tensor) {
    if (!std::exchange(begun, true))
      progress.stage("reading weights", total);
    progress.update(done, tensor);
  });
  if (begun)
    progress.finish();
}

} // namespace m3c
