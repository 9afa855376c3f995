// The entry kernel of every operator without a native kernel. The engine may defer the call; otherwise the
// CPU kernel runs at once on host aliases.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "kernels/host_kernel.h"

namespace hpu_reference::dispatch {

// The kernel that torch's dispatcher calls.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  // `key` is the CPU dispatch key of the kernel; see HostKernel. The constructor registers the plan with the
  // engine, so the object must live as long as the process.
  BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKey key);
  BoxedKernel(const BoxedKernel&) = delete;
  BoxedKernel& operator=(const BoxedKernel&) = delete;

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const;

  const kernels::OperatorPlan& plan() const {
    return kernel_.plan();
  }

 private:
  kernels::HostKernel kernel_;
};

}  // namespace hpu_reference::dispatch
