// The recorder of lazy mode. It records the calls of all threads, on one stream at a time, as a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/call.h"
#include "engine/engine.h"
#include "engine/output_metadata_cache.h"
#include "graph/graph.h"
#include "graph/graph_predictor.h"
#include "graph/lazy.h"
#include "graph/lazy_launch.h"
#include "kernels/host_kernel.h"
#include "runtime/gil.h"

namespace hpu_reference::graph {

// The recorder of lazy mode. If possible, it follows a predicted graph instead of creating calls.
class LazyRecorder final : public engine::Recorder {
 public:
  bool record(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              torch::jit::Stack* stack) override;
  void flush(bool wait);

  struct Settings {
    LazyMode mode = LazyMode::Graphs;
    std::mt19937_64 random;
    std::int64_t limit = INT64_MAX;
    bool limit_waits = false;
    bool own_thread = true;
  };
  // Changes the settings under the lock.
  template <class Change>
  void set(const Change& change) {
    const Lock lock(mutex_);
    change(settings_);
  }
  void set_dumps(LazyLauncher::Dumps dumps) {
    const Lock lock(mutex_);
    launcher_.dumps = std::move(dumps);
  }
  LazyStatistics statistics() {
    const Lock lock(mutex_);
    return statistics_;
  }

 private:
  using Lock = std::unique_lock<runtime::YieldingMutex<runtime::LockRank::Recorder>>;

  bool record_new(const kernels::HostKernel& kernel,
                  const c10::OperatorHandle& op,
                  const engine::CallArguments& arguments,
                  torch::jit::Stack* stack);
  enum class FlushRequest { Nothing, Flush, FlushAndWait };
  FlushRequest flush_request();
  void flush_as_requested(FlushRequest flush_request);
  void begin();
  void catch_up();
  void append(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              const engine::CallArguments& arguments,
              const engine::OutputMetadataPtr& output_metadata,
              const c10::IValue* values,
              const std::vector<c10::Storage>& new_storages,
              bool has_run,
              std::uint64_t seed);
  void append_call(const kernels::HostKernel& kernel,
                   const c10::OperatorHandle& op,
                   const engine::CallArguments& arguments,
                   const engine::OutputMetadataPtr& output_metadata,
                   const c10::IValue* values,
                   const std::vector<c10::Storage>& new_storages,
                   bool has_run,
                   std::uint64_t seed);
  void append_to_key(const engine::OutputMetadata& output_metadata,
                     const engine::CallArguments& arguments,
                     const std::vector<c10::Storage>& new_storages);
  bool follows(const engine::CallArguments& arguments,
               const engine::OutputMetadata& output_metadata,
               const c10::IValue* values,
               std::size_t start,
               std::uint64_t seed);
  void stop_following();
  void drop_recorded();
  void launch(c10::StreamId stream);
  engine::OutputMetadataPtr expected(const std::string& key) const;
  std::size_t recorded() const {
    return followed_.active() ? followed_.calls : calls_.size();
  }
  Lock lock_when_ready(const memory::AccessSet& arguments);

  // Autograd's threads record into the same graph. A thread that holds this lock never waits for a stream,
  // except when memory is short.
  runtime::YieldingMutex<runtime::LockRank::Recorder> mutex_;
  std::optional<BufferTable> table_;
  std::vector<engine::Call> calls_;
  std::vector<bool> has_run_;
  FollowedGraph followed_;  // if active, the calls so far belong to the followed graph and calls_ is empty
  LazyLauncher launcher_;
  std::string key_;             // key of the graph so far
  std::uint64_t removals_ = 0;  // engine::output_metadata_removals() at the start of the graph
  std::size_t not_run_ = 0;
  Settings settings_;
  LazyStatistics statistics_;
};

}  // namespace hpu_reference::graph
