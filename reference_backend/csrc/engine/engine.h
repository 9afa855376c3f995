// Where an operator goes when it is not simply run: into a queue, or into the graph that is being recorded.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "engine/call.h"
#include "kernels/host_kernel.h"
#include "kernels/operator_plan.h"

namespace hpu_reference::engine {

// Returns true where the call has been taken care of, its results on the stack; false: the caller runs it.
// `large`: worth a queue also where nothing is pending.
bool hold_back(const kernels::HostKernel& kernel,
               const c10::OperatorHandle& op,
               torch::jit::Stack* stack,
               bool large);

// Something that receives the calls of all threads instead of their being run: a capture or lazy mode.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // As hold_back().
  virtual bool record(const kernels::HostKernel& kernel,
                      const c10::OperatorHandle& op,
                      torch::jit::Stack* stack) = 0;
};

// One at a time; nullptr ends it. A capture goes before lazy mode.
void set_capture(Recorder* recorder);
void set_lazy(Recorder* recorder);

// Runs the call inline and learns what it returns. `key`: that of its arguments.
LearnedPtr run_and_learn(const kernels::HostKernel& kernel,
                         const c10::OperatorHandle& op,
                         const std::string& key,
                         torch::jit::Stack* stack);

struct EngineCounters {
  std::int64_t learned = 0;
  std::int64_t deferred = 0;
  std::int64_t launched = 0;
};
EngineCounters& counters();  // of no exact meaning while threads run

// Every operator's calls that ran from a queue, a flushed graph or a replay.
std::vector<std::pair<std::string, std::int64_t>> executed_operators();
void reset_executed_operators();
void register_plan(const kernels::OperatorPlan* plan);

}  // namespace hpu_reference::engine
