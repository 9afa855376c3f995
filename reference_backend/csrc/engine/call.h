// One operator, ready to run on any thread: its arguments as CPU tensors over the buffers' host storages, and
// memory for its results.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <vector>

#include "engine/learned.h"
#include "kernels/operator_plan.h"
#include "memory/detour.h"

namespace hpu_reference::engine {

using HostStorage = c10::intrusive_ptr<c10::StorageImpl>;

// A CPU storage that owns nothing; it points to memory while a call that uses it runs.
HostStorage make_host_storage(void* host, std::size_t bytes, bool resizable = true);

struct Call {
  Call(const kernels::OperatorPlan& operator_plan,
       const c10::OperatorHandle& handle,
       c10::DispatchKeySet keys)
      : plan(&operator_plan), op(handle), key(keys) {
  }

  const kernels::OperatorPlan* plan;
  c10::OperatorHandle op;
  c10::DispatchKeySet key;
  LearnedPtr learned;
  std::vector<c10::IValue> arguments;
  std::vector<HostStorage> fresh;  // one per fresh storage of the results
  std::vector<memory::Donation> donations;
  std::vector<int> lifted;  // positions of arguments that are given anew to each run
  bool gradients = true;    // whether gradients were on, which some kernels look at
  std::uint64_t seed = 0;   // of a random operator
  at::Generator generator;  // it draws from; undefined: the default one
  std::string line;         // of the user's program, where it is recorded

  bool random() const {
    return plan->generator >= 0;
  }

  // Runs the kernel with these seed and lifted values (null: its own); results land in `fresh`. The caller
  // holds a KernelGuard.
  void run(std::uint64_t with_seed, const c10::IValue* with_lifted) const;
  // Runs it alone, with its own seed and values.
  void run() const;

  std::string name() const;
};

// The host storage of a device storage, and that of a device result's.
using ResolveStorage = std::function<HostStorage(c10::StorageImpl* device)>;

// The call of these arguments. Values that are not tensors of the device's are copied, so that a later change
// of theirs is not seen, but for `by_reference`: CPU tensors stay the caller's.
Call make_call(const kernels::OperatorPlan& plan,
               const c10::OperatorHandle& op,
               c10::DispatchKeySet key,
               const c10::IValue* arguments,
               const CallArguments& looked_at,
               LearnedPtr learned,
               const ResolveStorage& resolve,
               bool by_reference = false);

// What kernels must not see of the thread that runs them: its modes, and autograd.
class KernelGuard {
 public:
  KernelGuard();

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
};

// The copy between a device tensor and a CPU tensor, whose memory is read or written when the call runs.
Call make_host_copy(const kernels::OperatorPlan& plan,
                    const at::Tensor& self,
                    const at::Tensor& source,
                    const ResolveStorage& resolve);

// Gives the call's fresh storages their memory, and the donations that lead there.
void set_fresh(Call& call, std::vector<HostStorage>&& storages);

// New memory for the fresh results of a call that has not run.
std::vector<c10::Storage> allocate_results(const Learned& learned);

// Device tensors for the results, over that memory, onto the stack in place of the arguments.
void push_results(const Learned& learned,
                  const CallArguments& arguments,
                  std::size_t argument_count,
                  const std::vector<c10::Storage>& storages,
                  torch::jit::Stack* stack);

// What a run returned: the stack's end holds the results, `metadata` what written_metadata() said before it.
Learned learn_results(const kernels::OperatorPlan& plan,
                      const CallArguments& arguments,
                      const std::vector<std::string>& metadata,
                      const torch::jit::Stack& stack,
                      const memory::AllocationLog& log);

// Sizes, strides, offset and storage of each written argument: the same before and after, or the call cannot
// be held back.
std::vector<std::string> written_metadata(const CallArguments& arguments);

// Gives empty out= arguments the sizes that the call is known to give them.
void grow(const Learned& learned, const CallArguments& arguments);

// The device tensors among the last `returns` values of the stack, in order; undefined ones included.
std::vector<at::Tensor> flattened_results(const kernels::OperatorPlan& plan, const torch::jit::Stack& stack);

// Remembers the line for the calls that this thread makes next. Takes the interpreter's lock: before any
// other.
void note_line();

// For the Python line of a call; an empty function: not recorded.
void set_line_source(std::function<std::string()> source);

}  // namespace hpu_reference::engine
