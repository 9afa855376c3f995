// CPU kernels that are prepared once for tensors with fixed metadata and can then run repeatedly without
// dispatch, boxing, allocation, shape computation or iterator construction. Only the tensors' memory may move
// between runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// A kernel with its arguments and its result. One thread at a time may use it.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  // Sets an argument to another value of the same type, dtype and size. Returns false if the preparation has
  // already consumed the argument's value; the prepared kernel is then unusable.
  virtual bool set(std::size_t argument, const c10::IValue& value) = 0;
  // Runs the kernel on the present memory of the tensors' storages.
  virtual void run() = 0;
  // Returns false if the last run has changed the prepared state; the prepared kernel is then unusable.
  virtual bool is_intact() const = 0;
};

// Returns true if the operator's kernel can be prepared, at least for some arguments.
bool can_prepare(const OperatorPlan& plan);

// Prepares the kernel for these arguments (CPU tensors and numbers) so that it writes `result`. `constant`
// has one item per argument; if it is true, only set() changes the tensor's values between runs. Returns
// nullptr if the operator is not supported, if a tensor would be converted, or if a tensor is so large that
// preparation has no benefit.
std::unique_ptr<PreparedKernel> prepare_kernel(const OperatorPlan& plan,
                                               const std::vector<c10::IValue>& arguments,
                                               const std::vector<bool>& constant,
                                               const at::Tensor& result);

}  // namespace hpu_reference::kernels
