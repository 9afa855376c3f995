// The front door of every operator without a native kernel: the engine may hold the call back; otherwise the
// CPU's kernel runs at once on host views.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "kernels/host_kernel.h"

namespace hpu_reference::dispatch {

// The kernel that torch's dispatcher calls.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  // `key` is the CPU-side key to run at; see HostKernel. Registers its plan with the engine, so it must live
  // as long as the process.
  BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKey key);
  BoxedKernel(const BoxedKernel&) = delete;
  BoxedKernel& operator=(const BoxedKernel&) = delete;

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const;

  // Facts about the operator.
  const kernels::OperatorPlan& plan() const {
    return kernel_.plan();
  }

 private:
  kernels::HostKernel kernel_;
};

}  // namespace hpu_reference::dispatch
