// Dtypes that the CPU's kernels lack and hardware has: floats of 8 and 16 bits are computed in float32, and
// places of 32 bits become places of 64.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// Runs a dense kernel at `key`. If it has no code for a dtype of low precision, runs it on copies in float32,
// and rounds what it writes and returns. Throws what the kernel throws; and its refusal of the dtype if there
// are other tensors of floats among the arguments, so that the dtype of the results would be a guess.
void run_with_upcast(const OperatorPlan& plan,
                  const c10::OperatorHandle& op,
                  c10::DispatchKeySet key,
                  torch::jit::Stack* stack);

}  // namespace hpu_reference::kernels
