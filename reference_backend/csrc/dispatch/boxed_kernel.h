// The kernel behind every operator without a native one: the CPU's kernel on host views.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "kernels/operator_plan.h"

namespace hpu_reference::dispatch {

class BoxedKernel final : public c10::OperatorKernel {
 public:
  // `key` is the CPU-side key to run at: CPU, SparseCPU, SparseCsrCPU or QuantizedCPU.
  BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKey key)
      : plan_(op), key_(key), dense_(key == c10::DispatchKey::CPU) {
  }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const;

  // On this thread, at once.
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;

  const OperatorPlan& plan() const {
    return plan_;
  }
  c10::DispatchKeySet key() const {
    return key_;
  }

 private:
  OperatorPlan plan_;
  c10::DispatchKeySet key_;
  bool dense_;  // takes strided tensors
};

}  // namespace hpu_reference::dispatch
