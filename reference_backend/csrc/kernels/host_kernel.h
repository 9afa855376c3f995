// The CPU kernel of one operator, run on the host aliases of its arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// An operator's kernel at one CPU dispatch key.
class HostKernel {
 public:
  // `key` is the CPU dispatch key of the kernel: CPU, SparseCPU, SparseCsrCPU or QuantizedCPU.
  HostKernel(const c10::OperatorHandle& op, c10::DispatchKey key)
      : plan_(op), key_(key), dense_(key == c10::DispatchKey::CPU) {
  }

  // Runs the kernel on this thread at once and replaces the arguments on the stack by the results.
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;

  const OperatorPlan& plan() const {
    return plan_;
  }
  // Returns the CPU dispatch key of the kernel.
  c10::DispatchKeySet key() const {
    return key_;
  }
  // Returns true if the kernel takes strided tensors.
  bool is_dense() const {
    return dense_;
  }

 private:
  OperatorPlan plan_;
  c10::DispatchKeySet key_;
  bool dense_;
};

}  // namespace hpu_reference::kernels
