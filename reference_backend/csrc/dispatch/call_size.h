// The size of a call. Entry kernels use the size to decide whether to queue the call or to run it at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "kernels/operator_plan.h"

namespace hpu_reference::dispatch {

// The size of the largest tensor among a call's first arguments.
class CallSize {
 public:
  // Number of first arguments whose size is considered.
  static constexpr std::size_t kArguments = 3;

  void include_tensor(const at::Tensor& tensor) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (impl->has_storage() && impl->dim() > 0) {
      elements_ = std::max(elements_, impl->numel());
      last_ = std::max(last_, impl->sizes().back());
    }
  }

  // Returns true if the call takes at least some tens of microseconds. Such a call is queued even if no work
  // is pending.
  bool is_large(kernels::OperatorPlan::Cost cost) const {
    constexpr std::int64_t kElements = std::int64_t{1} << 21;
    constexpr std::int64_t kProducts = std::int64_t{1} << 25;
    switch (cost) {
      case kernels::OperatorPlan::Cost::Product:
        return elements_ >= (kProducts - 1) / last_ + 1;  // not a product, which may exceed 64 bits
      case kernels::OperatorPlan::Cost::Convolution:
        return elements_ >= kProducts / 256;
      default:
        return elements_ >= kElements;
    }
  }

 private:
  std::int64_t elements_ = 0;
  std::int64_t last_ = 1;
};

}  // namespace hpu_reference::dispatch
