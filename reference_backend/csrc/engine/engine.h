// The way of an operator that does not simply run: into a queue, or into the graph that is being recorded.
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

// Takes care of the call and puts its results on the stack, or returns false: the caller runs it. `large`:
// worth a queue even if nothing is pending.
bool try_defer(const kernels::HostKernel& kernel,
               const c10::OperatorHandle& op,
               torch::jit::Stack* stack,
               bool large);

// Receiver of calls, which it may record instead of running them: a capture or lazy mode.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // As try_defer().
  virtual bool record(const kernels::HostKernel& kernel,
                      const c10::OperatorHandle& op,
                      torch::jit::Stack* stack) = 0;
};

// Recorder of a capture, registered with runtime::begin_capture(): every scope there is one. A capture goes
// before lazy mode.
class CaptureRecorder : public Recorder, public runtime::CaptureScope {
 public:
  using runtime::CaptureScope::CaptureScope;
};
// The recorder of calls on this thread's current stream, or nullptr if they are not captured.
std::shared_ptr<CaptureRecorder> current_capture();

// Sets lazy mode's recorder, which receives the calls of all threads.
void set_lazy(Recorder* recorder);

// The memory of the device tensors among an operator's arguments.
memory::AccessSet access_set_of(const kernels::OperatorPlan& plan, const c10::IValue* arguments);

// Runs the call inline and learns what it returns. `key` is its arguments' key. The caller has waited for the
// arguments' memory.
OutputMetadataPtr run_and_cache_metadata(const kernels::HostKernel& kernel,
                         const c10::OperatorHandle& op,
                         const std::string& key,
                         torch::jit::Stack* stack);

// Counters for tests and statistics. Threads without a common lock count; nothing is ordered by them.
struct EngineCounters {
  std::atomic<std::int64_t> metadata_runs{0};
  std::atomic<std::int64_t> deferred{0};
  std::atomic<std::int64_t> launched{0};
};
// The counters.
EngineCounters& counters();

// Each operator with its number of calls that ran from a queue, a flushed graph or a replay.
std::vector<std::pair<std::string, std::int64_t>> executed_operators();
// Resets these numbers to 0.
void reset_executed_operators();
// Adds an operator to executed_operators(); the plan must live as long as the process.
void register_plan(const kernels::OperatorPlan* plan);

}  // namespace hpu_reference::engine
