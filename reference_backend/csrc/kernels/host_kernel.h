// The CPU's kernel of one operator, run on the host views of its arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// One operator's kernel at a CPU-side key.
class HostKernel {
 public:
  // `key` is the CPU-side key to run at: CPU, SparseCPU, SparseCsrCPU or QuantizedCPU.
  HostKernel(const c10::OperatorHandle& op, c10::DispatchKey key)
      : plan_(op), key_(key), dense_(key == c10::DispatchKey::CPU) {
  }

  // Runs the kernel on this thread, at once: arguments on the stack become results.
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;

  // Facts about the operator.
  const OperatorPlan& plan() const {
    return plan_;
  }
  // The CPU-side key to run at.
  c10::DispatchKeySet key() const {
    return key_;
  }
  // True if it takes strided tensors.
  bool is_dense() const {
    return dense_;
  }

 private:
  OperatorPlan plan_;
  c10::DispatchKeySet key_;
  bool dense_;
};

}  // namespace hpu_reference::kernels
