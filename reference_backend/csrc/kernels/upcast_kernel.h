// Upcast kernels for dtypes that the hardware supports and CPU kernels do not support. 8-bit and 16-bit
// floats are computed in float32, and int32 indices are converted to int64.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// Runs a dense kernel at `key`. If the kernel does not support a low-precision dtype, runs it on float32
// copies and rounds the written arguments and the results. Throws the kernel's errors. Throws the kernel's
// error about the dtype if other floating-point tensors are among the arguments, because the dtype of the
// results would be ambiguous.
void run_with_upcast(const OperatorPlan& plan,
                     const c10::OperatorHandle& op,
                     c10::DispatchKeySet key,
                     torch::jit::Stack* stack);

}  // namespace hpu_reference::kernels
