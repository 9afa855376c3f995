#include "dispatch/boxed_kernel.h"

#include <ATen/core/ivalue.h>

#include <algorithm>

#include "dispatch/call_size.h"
#include "engine/engine.h"
#include "kernels/operator_plan.h"
#include "runtime/queue.h"

namespace hpu_reference::dispatch {

namespace {

bool is_large(const kernels::OperatorPlan& plan, const c10::IValue* arguments) {
  CallSize size;
  for (std::size_t i = 0; i < std::min(plan.arguments, CallSize::kArguments); i++) {
    if (arguments[i].isTensor()) {
      size.include_tensor(arguments[i].toTensor());
    }
  }
  return size.is_large(plan.cost);
}

}  // namespace

BoxedKernel::BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKey key) : kernel_(op, key) {
  engine::register_plan(&kernel_.plan());
}

void BoxedKernel::operator()(const c10::OperatorHandle& op,
                             c10::DispatchKeySet,
                             torch::jit::Stack* stack) const {
  const kernels::OperatorPlan& plan = kernel_.plan();
  plan.normalize_lists(stack->data() + stack->size() - plan.arguments);
  if (C10_UNLIKELY(plan.needs_dense_inputs)) {
    c10::IValue& self = (*stack)[stack->size() - plan.arguments];
    self = self.toTensor().contiguous();
  }
  const bool large = kernel_.is_dense() && is_large(plan, stack->data() + stack->size() - plan.arguments);
  if ((large || runtime::is_work_pending()) && engine::try_defer(kernel_, op, stack, large)) {
    return;
  }
  kernel_.run(op, stack);
}

}  // namespace hpu_reference::dispatch
