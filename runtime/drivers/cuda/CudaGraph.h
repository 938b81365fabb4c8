// A recorded sequence of launches and copies as a CUDA graph: one chain of nodes.
#pragma once

#include "runtime/drivers/cuda/CudaLaunch.h"

#include <deque>
#include <functional>
#include <variant>

namespace m3c::hal::cuda {

class CudaGraph final : public Graph {
public:
  explicit CudaGraph(CudaDevice &device) : device(device) {}
  ~CudaGraph() override;

  void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
              std::string_view label) override;
  void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset, uint64_t bytes,
            std::string_view label) override;
  void instantiate() override;
  size_t nodes() const override { return records.size(); }
  const std::string &label(size_t node) const override;

  using Record = std::variant<LaunchRecord, CopyRecord>;
  const std::deque<Record> &recorded() const { return records; }
  uint64_t launches() const { return launchCount; }
  /// What errors call it: its length and its first and last label.
  const std::string &text() const { return description; }

  /// Throws Error when the graph is not instantiated.
  GraphExec ready() const;
  /// The same chain with an event before the first node and after each one; made on first use.
  /// `times` reads them: seconds[i] is the time of node i.
  GraphExec timed();
  void times(std::span<double> seconds) const;

private:
  struct Built {
    GraphHandle graph = nullptr;
    GraphExec exec = nullptr;
  };
  Record &addRecord(std::string_view label);
  Built build(bool withEvents);
  GraphNode addNode(GraphHandle graph, const Record &record, GraphNode before, bool afterKernel);
  void destroy(Built &built);

  CudaDevice &device;
  std::deque<Record> records; // addresses stay
  uint64_t launchCount = 0;
  std::string description;
  Built plain, withTimes;
  std::vector<std::unique_ptr<CudaEvent>> events; ///< nodes() + 1, once timed
};

} // namespace m3c::hal::cuda
