// Batch normalisation with the saved statistics that torch's decompositions assume of a device other than the
// CPU. The values are the CPU kernel's.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_native_batch_norm_legit_ops.h>
#include <ATen/ops/add.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include "dispatch/host_call.h"

namespace hpu_reference::dispatch {

namespace {

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

using Norm = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// In evaluation the CPU saves no statistics; a device saves the running ones.
Norm with_saved_statistics(
    Norm&& result, bool training, const at::Tensor& mean, const at::Tensor& var, double eps) {
  if (!training && mean.defined() && var.defined()) {
    std::get<1>(result) = mean.clone();
    std::get<2>(result) = at::rsqrt(at::add(var, eps));
  }
  return std::move(result);
}

template <class Operator, class Statistics>
Norm batch_norm(const at::Tensor& input,
                const std::optional<at::Tensor>& weight,
                const std::optional<at::Tensor>& bias,
                Statistics mean,
                Statistics var,
                bool training,
                double momentum,
                double eps) {
  const char* const name = "aten::native_batch_norm";
  HostCall call;
  const auto optional = [&](const std::optional<at::Tensor>& value) {
    return value.has_value() ? std::make_optional(call.host(*value, Access::Read, name)) : std::nullopt;
  };
  // The running statistics have host views of their own bytes, so what the kernel writes there is written.
  auto host_mean = [&] {
    if constexpr (std::is_same_v<Statistics, at::Tensor&>) {
      return call.host(mean, Access::Write, name);
    } else {
      return optional(mean);
    }
  }();
  auto host_var = [&] {
    if constexpr (std::is_same_v<Statistics, at::Tensor&>) {
      return call.host(var, Access::Write, name);
    } else {
      return optional(var);
    }
  }();
  Norm made = Operator::redispatch(kCpu,
                                   call.host(input, Access::Read, name),
                                   optional(weight),
                                   optional(bias),
                                   host_mean,
                                   host_var,
                                   training,
                                   momentum,
                                   eps);
  call.kernel_done();
  call.finish();
  Norm result = {call.device(std::move(std::get<0>(made))),
                 call.device(std::move(std::get<1>(made))),
                 call.device(std::move(std::get<2>(made)))};
  const std::optional<at::Tensor> device_mean = mean, device_var = var;
  return with_saved_statistics(std::move(result),
                               training,
                               device_mean.value_or(at::Tensor()),
                               device_var.value_or(at::Tensor()),
                               eps);
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("native_batch_norm", batch_norm<at::_ops::native_batch_norm, const std::optional<at::Tensor>&>);
  m.impl("_native_batch_norm_legit", batch_norm<at::_ops::_native_batch_norm_legit, at::Tensor&>);
}

}  // namespace

}  // namespace hpu_reference::dispatch
