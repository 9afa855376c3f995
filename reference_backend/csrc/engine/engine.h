// Deferral of operator calls: the engine queues a call, or appends it to the graph that is being recorded.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>

#include "engine/call.h"
#include "kernels/host_kernel.h"
#include "kernels/operator_plan.h"
#include "memory/access_set.h"
#include "runtime/capture_scope.h"

namespace hpu_reference::engine {

// Defers the call and puts its results on the stack. Returns false if the caller must run the call. `large`:
// queue the call even if no work is pending.
bool try_defer(const kernels::HostKernel& kernel,
               const c10::OperatorHandle& op,
               torch::jit::Stack* stack,
               bool large);

// A receiver of calls that may record a call instead of running it: a capture or lazy mode.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Records the call and puts its results on the stack. Returns false if the caller must run the call.
  virtual bool record(const kernels::HostKernel& kernel,
                      const c10::OperatorHandle& op,
                      torch::jit::Stack* stack) = 0;
};

// The recorder of a capture, registered with runtime::begin_capture(). Every registered CaptureScope is a
// CaptureRecorder. A capture takes precedence over lazy mode.
class CaptureRecorder : public Recorder, public runtime::CaptureScope {
 public:
  using runtime::CaptureScope::CaptureScope;
};
// Returns the recorder of calls on this thread's current stream, or nullptr if no capture records them.
std::shared_ptr<CaptureRecorder> current_capture();

// Sets lazy mode's recorder, which receives the calls of all threads.
void set_lazy_recorder(Recorder* recorder);

// Returns the memory of the device tensors among an operator's arguments.
memory::AccessSet access_set_of(const kernels::OperatorPlan& plan, const c10::IValue* arguments);

// Runs the call inline and adds its output metadata to the cache. `key` is the key of the arguments. The
// caller must have waited for the arguments' memory.
OutputMetadataPtr run_and_cache_metadata(const kernels::HostKernel& kernel,
                                         const c10::OperatorHandle& op,
                                         const std::string& key,
                                         torch::jit::Stack* stack);

// Counters of the engine, for tests and statistics. Several threads increment them without a lock.
struct EngineCounters {
  std::atomic<std::int64_t> metadata_runs{0};
  std::atomic<std::int64_t> deferred{0};
  std::atomic<std::int64_t> launched{0};
};
EngineCounters& counters();

// Returns each operator with its number of calls that ran from a queue, a flushed graph or a replay.
std::vector<std::pair<std::string, std::int64_t>> executed_operators();
// Resets the numbers of executed_operators() to 0.
void reset_executed_operators();
// Adds an operator to executed_operators(). The plan must live as long as the process.
void register_plan(const kernels::OperatorPlan* plan);

}  // namespace hpu_reference::engine
