// One operator, ready to run on any thread: its arguments as CPU tensors over the buffers' host storages, and
// memory for its results.
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

// Makes a CPU storage that owns nothing; it points to memory while a call that uses it runs.
HostStorage make_host_storage(void* host, std::size_t bytes, bool resizable = true);

// One operator and all that a thread needs to run it.
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
  std::vector<HostStorage> new_storages;  // one per fresh storage of the results
  std::vector<memory::OutputPlacement> output_placements;
  std::vector<int> lifted;    // positions of arguments whose values each run brings
  bool gradients = true;      // gradients were on; some kernels look at that
  std::uint64_t seed = 0;     // of a random operator
  at::Generator generator;    // it draws from; undefined: the default one
  std::string line;           // of the user's program, if it is recorded
  bool reads_device = true;   // a copy: false if its source is the host's
  bool writes_device = true;  // a copy: false if its target is the host's

  // True for a random operator.
  bool random() const {
    return plan->generator >= 0;
  }

  // Runs the kernel with these seed and lifted values (null: its own); results land in `fresh`. The caller
  // has a KernelGuard.
  void run(std::uint64_t with_seed, const c10::IValue* with_lifted) const;
  // Runs it alone, with its own seed and values.
  void run() const;

  // The operator, with the line of the user's program if it is recorded.
  std::string name() const;
};

// Function from a device storage, an argument's or a result's, to its host storage.
using ResolveStorage = std::function<HostStorage(c10::StorageImpl* device)>;

// Makes the call of these arguments. Values that are not tensors of the device are copied, so that later
// changes of theirs have no effect; with `by_reference`, CPU tensors stay the caller's.
Call make_call(const kernels::OperatorPlan& plan,
               const c10::OperatorHandle& op,
               c10::DispatchKeySet key,
               const c10::IValue* arguments,
               const CallArguments& call_arguments,
               OutputMetadataPtr output_metadata,
               const ResolveStorage& resolve,
               bool by_reference = false);

// A value that is not a tensor of the device, in the form in which a call keeps it: later changes of the
// caller's have no effect.
c10::IValue stored_value(const c10::IValue& value);

// Scope that hides the running thread's modes and autograd from kernels.
class KernelGuard {
 public:
  KernelGuard();

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
};

// Makes the copy between a device tensor and a CPU tensor, whose memory is read or written when the call
// runs.
Call make_host_copy(const kernels::OperatorPlan& plan,
                    const at::Tensor& self,
                    const at::Tensor& source,
                    const ResolveStorage& resolve);

// Sets the memory of the call's fresh storages, and the donations that lead there.
void set_new_storages(Call& call, std::vector<HostStorage>&& storages);

// Allocates memory for the fresh results of a call that has not run.
std::vector<c10::Storage> allocate_results(const OutputMetadata& output_metadata);

// Puts device tensors for the results, over that memory, onto the stack in place of the arguments.
void push_results(const OutputMetadata& output_metadata,
                  const CallArguments& arguments,
                  std::size_t argument_count,
                  const std::vector<c10::Storage>& storages,
                  torch::jit::Stack* stack);

// Learns what a run returned: the stack's end has the results, `metadata` is written_metadata() from before
// it.
OutputMetadata output_metadata_of(const kernels::OperatorPlan& plan,
                      const CallArguments& arguments,
                      const std::vector<std::string>& metadata,
                      const torch::jit::Stack& stack,
                      const memory::AllocationLog& log);

// Sizes, strides, offset and storage of each written argument. A call that changes them cannot be held back.
std::vector<std::string> written_metadata(const CallArguments& arguments);

// Gives empty out= arguments the sizes that the call is known to give them.
void resize_out_arguments(const OutputMetadata& output_metadata, const CallArguments& arguments);

// The device tensors among the last `returns` values of the stack, in order; undefined ones included.
std::vector<at::Tensor> flattened_results(const kernels::OperatorPlan& plan, const torch::jit::Stack& stack);

// Remembers the current line of the program for the calls that this thread makes next. Takes the
// interpreter's lock, so it comes before any other lock.
void record_line();

// True if calls remember lines.
bool records_lines();
// Sets the function that returns the current line of the program; an empty one switches this off.
void set_line_source(std::function<std::string()> source);

}  // namespace hpu_reference::engine
