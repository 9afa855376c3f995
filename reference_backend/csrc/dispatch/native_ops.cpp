// Native kernels for operators that cannot run their CPU kernel on host aliases. Such operators choose an
// implementation by the metadata of the arguments, are torch's "overrideable" operators for backends, or have
// CPU kernels that draw from the CPU's default generator.
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/native_dropout_ops.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "device_key.h"
#include "kernels/host_call.h"
#include "torch_release.h"

namespace hpu_reference::dispatch {

namespace {

// Chooses an implementation of attention. The choice reads metadata only, because the Meta kernel also calls
// this function, with fake tensors.
int64_t fused_sdp_choice(const at::Tensor& query,
                         const at::Tensor& key,
                         const at::Tensor& value,
                         const std::optional<at::Tensor>& mask,
                         double dropout,
                         bool is_causal,
                         std::optional<double> scale,
                         bool enable_gqa) {
  // The CPU's choice reads only sizes, strides and flags, so it accepts device tensors and fake tensors.
  return at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                 query,
                                                 key,
                                                 value,
                                                 mask,
                                                 dropout,
                                                 is_causal,
                                                 scale,
                                                 enable_gqa);
}

at::Tensor convolution_overrideable(const at::Tensor& input,
                                    const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias,
                                    c10::SymIntArrayRef stride,
                                    c10::SymIntArrayRef padding,
                                    c10::SymIntArrayRef dilation,
                                    bool transposed,
                                    c10::SymIntArrayRef output_padding,
                                    c10::SymInt groups) {
  return at::_ops::convolution::call(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, std::move(groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding,
    c10::SymIntArrayRef dilation,
    bool transposed,
    c10::SymIntArrayRef output_padding,
    c10::SymInt groups,
    std::array<bool, 3> mask) {
  std::optional<std::vector<c10::SymInt>> bias_sizes;
  if (mask[2]) {
    bias_sizes = std::vector<c10::SymInt>{gradient.sym_size(1)};
  }
  return at::_ops::convolution_backward::call(
      gradient,
      input,
      weight,
      bias_sizes.has_value() ? at::OptionalSymIntArrayRef(*bias_sizes) : at::OptionalSymIntArrayRef(),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      std::move(groups),
      mask);
}

// The CPU kernel draws from the CPU's default generator; this kernel draws from the device's generator.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input,
                                                  double probability,
                                                  std::optional<bool> train) {
  if (input.numel() == 0) {
    return {input, at::empty_like(input, input.options().dtype(at::kBool))};
  }
  if (train.has_value() && !*train) {
    return {at::mul(input, 1), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  if (probability == 1.0) {
    mask.zero_();
    return {at::zeros_like(input), mask};
  }
  at::_ops::bernoulli__float::call(mask, 1 - probability, std::nullopt);
  return {at::mul(at::mul(input, mask), 1 / (1 - probability)), mask};
}

// torch's composite operator preserves the channels-last format on the CPU only, so this kernel replaces the
// composite operator. It is registered for both HPU and AutogradHPU: a kernel for HPU alone would replace the
// derivative of the composite operator.
at::Tensor group_norm(const at::Tensor& input,
                      int64_t groups,
                      const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias,
                      double epsilon,
                      bool) {
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(input.dim() >= 2, "Expected at least 2 dimensions for input tensor but received ", input.dim());
  const c10::SymInt batch = input.sym_size(0), channels = input.sym_size(1);
  TORCH_SYM_CHECK(
      (channels % groups).sym_eq(0),
      "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
      input.sym_sizes(),
      " and num_groups=",
      groups);
  for (const auto& [name, parameter] : {std::make_pair("weight", &weight), std::make_pair("bias", &bias)}) {
    if (parameter->has_value() && (*parameter)->defined()) {
      TORCH_CHECK((*parameter)->dim() == 1 && (*parameter)->sym_numel() == channels,
                  "Expected ",
                  name,
                  " to be a vector of size equal to the number of channels in input, but got ",
                  name,
                  " of shape ",
                  (*parameter)->sym_sizes(),
                  " and input of shape ",
                  input.sym_sizes());
    }
  }
  c10::SymInt inner = 1;
  for (int64_t i = 2; i < input.dim(); i++) {
    inner *= input.sym_size(i);
  }
  // The kernel reads the input, the weight and the bias as dense tensors, so make them dense.
  const auto dense = [](const std::optional<at::Tensor>& parameter) {
    return parameter.has_value() && parameter->defined() ? std::make_optional(parameter->contiguous())
                                                         : parameter;
  };
  return std::get<0>(at::native_group_norm_symint(input.contiguous(input.suggest_memory_format()),
                                                  dense(weight),
                                                  dense(bias),
                                                  batch,
                                                  channels,
                                                  inner,
                                                  groups,
                                                  epsilon));
}

// Replaces the CPU's narrow_copy, which reports an invalid dimension with another error and writes a strided
// out= as if it were dense.
at::Tensor& narrow_copy_out(
    const at::Tensor& self, int64_t dimension, c10::SymInt start, c10::SymInt length, at::Tensor& out) {
  const at::Tensor part = self.narrow_symint(dimension, std::move(start), std::move(length));
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "Expected out tensor to have dtype ",
              self.scalar_type(),
              ", but got ",
              out.scalar_type(),
              " instead");
  TORCH_CHECK(kernels::is_device_tensor(out),
              "Expected out tensor to be on " DEVICE_NAME ":0, but it is on ",
              out.device());
  at::native::resize_output(out, part.sizes());
  return out.copy_(part);
}

TORCH_LIBRARY_IMPL(aten, AUTOGRAD_DEVICE_KEY, m) {
  m.impl("group_norm", group_norm);
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  m.impl("group_norm", group_norm);
  m.impl("narrow_copy", at::native::narrow_copy_dense_symint);
  m.impl("narrow_copy.out", narrow_copy_out);
  m.impl("_fused_sdp_choice", fused_sdp_choice);
  m.impl("convolution_overrideable", convolution_overrideable);
  m.impl("convolution_backward_overrideable", convolution_backward_overrideable);
  m.impl("native_dropout", native_dropout);
}

}  // namespace

}  // namespace hpu_reference::dispatch

namespace at::native {
REGISTER_DEVICE_DISPATCH(_fused_sdp_choice_stub, &hpu_reference::dispatch::fused_sdp_choice)
}  // namespace at::native
