// Kernels of the CPU that are prepared once for tensors whose metadata never changes, and then run as often
// as wanted: no dispatch, no boxing, no allocation, no shapes, no iterator. Only the tensors' memory may move
// between runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// One kernel with its arguments and its result. One thread at a time may use it.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  // Gives an argument another value of the same type, dtype and size. False if the kernel has used the
  // argument's value up while it was prepared; it is then of no use.
  virtual bool set(std::size_t argument, const c10::IValue& value) = 0;
  // Runs the kernel on the memory that the tensors' storages have now.
  virtual void run() = 0;
  // False if the last run has changed what was prepared; it is then of no use.
  virtual bool intact() const = 0;
};

// True if there is a way to prepare the operator's kernel for some arguments.
bool can_prepare(const OperatorPlan& plan);

// Prepares the kernel for these arguments, CPU tensors and numbers, so that it writes `result`. `constant`,
// one per argument: a tensor keeps its values between runs, except by set(). Returns nullptr if it cannot:
// the operator is not one of those, or a tensor would be converted or is larger than is worth it.
std::unique_ptr<PreparedKernel> prepare_kernel(const OperatorPlan& plan,
                                               const std::vector<c10::IValue>& arguments,
                                               const std::vector<bool>& constant,
                                               const at::Tensor& result);

}  // namespace hpu_reference::kernels
