// An operator call that can run on any thread: its arguments as CPU tensors over the buffers' host storages,
// and memory for its results.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <vector>

#include "engine/output_metadata_cache.h"
#include "kernels/operator_plan.h"
#include "memory/allocation_redirect.h"

namespace hpu_reference::engine {

using HostStorage = c10::intrusive_ptr<c10::StorageImpl>;

// Creates a CPU storage that owns no memory. It points to memory only while a call that uses it runs.
HostStorage make_host_storage(void* host, std::size_t bytes, bool resizable = true);

// An operator call with all state that a thread needs to run it.
struct Call {
  Call(const kernels::OperatorPlan& operator_plan,
       const c10::OperatorHandle& handle,
       c10::DispatchKeySet keys)
      : plan(&operator_plan), op(handle), key(keys) {
  }

  const kernels::OperatorPlan* plan;
  c10::OperatorHandle op;
  c10::DispatchKeySet key;
  OutputMetadataPtr output_metadata;
  std::vector<c10::IValue> arguments;
  std::vector<HostStorage> new_storages;  // one per new storage of the results
  std::vector<memory::OutputPlacement> output_placements;
  std::vector<int> lifted;    // indices of the arguments whose values each run provides
  bool gradients = true;      // gradient mode at the call; some kernels read it
  std::uint64_t seed = 0;     // only of a random operator
  at::Generator generator;    // generator of the seed; undefined: the default generator
  std::string line;           // line of the user's program that issued the call, if recorded
  bool reads_device = true;   // for a copy: false if the source is host memory
  bool writes_device = true;  // for a copy: false if the target is host memory

  bool is_random() const {
    return plan->generator >= 0;
  }

  // Runs the kernel with this seed and these lifted values (see CallArguments; null: the call's own values).
  // The results are written to `new_storages`. The caller must hold a KernelGuard.
  void run(std::uint64_t with_seed, const c10::IValue* with_lifted) const;
  // Runs the call with its own seed and lifted values, under its own KernelGuard.
  void run() const;

  // Returns the operator's name, with the line of the user's program if it is recorded.
  std::string name() const;
};

// A function that maps the device storage of an argument or a result to its host storage.
using ResolveStorage = std::function<HostStorage(c10::StorageImpl* device)>;

// Creates the call for these arguments. Values that are not device tensors are copied, so that later changes
// by the caller have no effect. If `by_reference` is true, CPU tensors are not copied.
Call make_call(const kernels::OperatorPlan& plan,
               const c10::OperatorHandle& op,
               c10::DispatchKeySet key,
               const c10::IValue* arguments,
               const CallArguments& call_arguments,
               OutputMetadataPtr output_metadata,
               const ResolveStorage& resolve,
               bool by_reference = false);

// Returns a copy of a value that is not a device tensor, for storage in a call. Later changes by the caller
// have no effect on the copy.
c10::IValue stored_value(const c10::IValue& value);

// Scope that hides the running thread's modes and autograd from kernels.
class KernelGuard {
 public:
  KernelGuard();

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
};

// Creates the call that copies between a device tensor and a CPU tensor. The CPU tensor's memory is read or
// written when the call runs.
Call make_host_copy(const kernels::OperatorPlan& plan,
                    const at::Tensor& self,
                    const at::Tensor& source,
                    const ResolveStorage& resolve);

// Sets the storages of the call's new results, and the output placements through which the kernel writes to
// these storages.
void set_new_storages(Call& call, std::vector<HostStorage>&& storages);

// Allocates memory for the new results of a call that has not run.
std::vector<c10::Storage> allocate_results(const OutputMetadata& output_metadata);

// Replaces the arguments on the stack by device tensors for the results, over memory of allocate_results().
void push_results(const OutputMetadata& output_metadata,
                  const CallArguments& arguments,
                  std::size_t argument_count,
                  const std::vector<c10::Storage>& storages,
                  torch::jit::Stack* stack);

// Returns the output metadata of a run. The results are at the end of the stack. `metadata` is the value that
// written_metadata() returned before the run.
OutputMetadata output_metadata_of(const kernels::OperatorPlan& plan,
                                  const CallArguments& arguments,
                                  const std::vector<std::string>& metadata,
                                  const torch::jit::Stack& stack,
                                  const memory::AllocationLog& log);

// Returns the sizes, strides, offset and storage of each written argument. A call that changes them cannot be
// deferred.
std::vector<std::string> written_metadata(const CallArguments& arguments);

// Resizes empty out= arguments to the sizes that the output metadata lists.
void resize_out_arguments(const OutputMetadata& output_metadata, const CallArguments& arguments);

// Returns the device tensors among the last `returns` values of the stack, in order, including undefined
// tensors.
std::vector<at::Tensor> flattened_results(const kernels::OperatorPlan& plan, const torch::jit::Stack& stack);

// Records the current line of the program for the next calls of this thread. Takes the GIL, so call it before
// taking any other lock.
void record_python_line();

// Returns true if each call records the line of the program that issued it.
bool is_recording_python_lines();
// Sets the function that returns the current line of the program. An empty function disables the recording of
// lines.
void set_python_line_source(std::function<std::string()> source);

}  // namespace hpu_reference::engine
