#include "dispatch/boxed_kernel.h"

#include <ATen/core/ivalue.h>

#include <algorithm>

#include "engine/engine.h"
#include "kernels/operator_plan.h"
#include "runtime/queue.h"

namespace hpu_reference::dispatch {

namespace {

// True for a call of some tens of microseconds or more, which is worth a queue even if nothing is pending.
bool is_large(const kernels::OperatorPlan& plan, const c10::IValue* arguments) {
  constexpr std::int64_t kElements = std::int64_t{1} << 21;
  constexpr std::int64_t kProducts = std::int64_t{1} << 25;
  std::int64_t elements = 0;
  std::int64_t last = 1;
  for (std::size_t i = 0; i < std::min<std::size_t>(plan.arguments, 3); i++) {
    if (arguments[i].isTensor()) {
      const c10::TensorImpl* impl = arguments[i].toTensor().unsafeGetTensorImpl();
      if (impl->has_storage() && impl->dim() > 0) {
        elements = std::max(elements, impl->numel());
        last = std::max(last, impl->sizes().back());
      }
    }
  }
  switch (plan.cost) {
    case kernels::OperatorPlan::Cost::Product:
      return elements >= (kProducts - 1) / last + 1;  // a product may exceed 64 bits
    case kernels::OperatorPlan::Cost::Convolution:
      return elements >= kProducts / 256;
    default:
      return elements >= kElements;
  }
}

}  // namespace

BoxedKernel::BoxedKernel(const c10::OperatorHandle& op, c10::DispatchKey key) : kernel_(op, key) {
  engine::register_plan(&kernel_.plan());
}

void BoxedKernel::operator()(const c10::OperatorHandle& op,
                             c10::DispatchKeySet,
                             torch::jit::Stack* stack) const {
  const kernels::OperatorPlan& plan = kernel_.plan();
  if (C10_UNLIKELY(plan.dense_inputs)) {
    c10::IValue& self = (*stack)[stack->size() - plan.arguments];
    self = self.toTensor().contiguous();
  }
  const bool large = kernel_.is_dense() && is_large(plan, stack->data() + stack->size() - plan.arguments);
  if ((large || runtime::needs_attention()) && engine::hold_back(kernel_, op, stack, large)) {
    return;
  }
  kernel_.run(op, stack);
}

}  // namespace hpu_reference::dispatch
