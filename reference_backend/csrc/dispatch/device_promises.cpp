// Operators for which torch promises a device something else than its CPU kernel does: strides, kinds of
// error and statistics that fake tensors of a device assume. The values are the CPU kernel's.
#include <ATen/native/Resize.h>
#include <ATen/ops/_native_batch_norm_legit_ops.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/nonzero_static_ops.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include "dispatch/host_call.h"

namespace hpu_reference::dispatch {

namespace {

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

// The CPU's own narrow_copy names a wrong dimension with another error, and writes a strided out= as if it
// were dense.
at::Tensor& narrow_copy_out(
    const at::Tensor& self, int64_t dimension, c10::SymInt start, c10::SymInt length, at::Tensor& out) {
  const at::Tensor part = self.narrow_symint(dimension, std::move(start), std::move(length));
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "Expected out tensor to have dtype ",
              self.scalar_type(),
              ", but got ",
              out.scalar_type(),
              " instead");
  at::native::resize_output(out, part.sizes());
  return out.copy_(part);
}

// One column after the other, as on other devices.
at::Tensor nonzero_static(const at::Tensor& self, c10::SymInt size, int64_t fill) {
  const int64_t rows = size.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(rows >= 0, "nonzero_static: 'size' must be a non-negative integer, but it is ", rows);
  at::Tensor out =
      at::empty_strided({rows, self.dim()}, {1, std::max<int64_t>(rows, 1)}, self.options().dtype(at::kLong));
  HostCall call;
  at::Tensor host = call.host(out, Access::Write, "aten::nonzero_static");
  const at::Tensor from = call.host(self, Access::Read, "aten::nonzero_static");
  host.copy_(at::_ops::nonzero_static::redispatch(kCpu, from, std::move(size), fill));
  call.kernel_done();
  call.finish();
  return out;
}

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
  m.impl("narrow_copy", at::native::narrow_copy_dense_symint);
  m.impl("narrow_copy.out", narrow_copy_out);
  m.impl("nonzero_static", nonzero_static);
  m.impl("native_batch_norm", batch_norm<at::_ops::native_batch_norm, const std::optional<at::Tensor>&>);
  m.impl("_native_batch_norm_legit", batch_norm<at::_ops::_native_batch_norm_legit, at::Tensor&>);
}

}  // namespace

}  // namespace hpu_reference::dispatch
