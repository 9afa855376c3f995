// Layer normalisation for nested tensors: torch's operators on nested tensors call these functions through a
// table that has one function per device.
#include <ATen/core/Tensor.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include <array>
#include <cstdint>
#include <optional>

#include "torch_release.h"

namespace hpu_reference::dispatch {

namespace {

std::optional<at::Tensor> flattened_or_none(const at::Tensor& tensor, std::int64_t count) {
  return tensor.defined() ? std::make_optional(tensor.reshape({count})) : std::nullopt;
}

void write(at::Tensor* result, const at::Tensor& values) {
  if (result != nullptr && result->defined()) {
    result->copy_(values.reshape(result->sizes()));
  }
}

// Normalises `rows` rows of `count` elements. Old releases of torch do not call the functions of this file.
[[maybe_unused]] void layer_norm_forward(const at::Tensor& input,
                                         const at::Tensor& weight,
                                         const at::Tensor& bias,
                                         std::int64_t rows,
                                         std::int64_t count,
                                         double eps,
                                         at::Tensor* output,
                                         at::Tensor* mean,
                                         at::Tensor* rstd) {
  const auto [values, means, rstds] = at::native_layer_norm(input.reshape({rows, count}),
                                                            {count},
                                                            flattened_or_none(weight, count),
                                                            flattened_or_none(bias, count),
                                                            eps);
  write(output, values);
  write(mean, means);
  write(rstd, rstds);
}

[[maybe_unused]] void layer_norm_backward(const at::Tensor& grad,
                                          const at::Tensor& input,
                                          const at::Tensor& mean,
                                          const at::Tensor& rstd,
                                          const at::Tensor& weight,
                                          std::int64_t rows,
                                          std::int64_t count,
                                          at::Tensor* grad_input,
                                          at::Tensor* grad_weight,
                                          at::Tensor* grad_bias) {
  const auto is_requested = [](const at::Tensor* result) { return result != nullptr && result->defined(); };
  const std::array<bool, 3> requested{
      is_requested(grad_input), is_requested(grad_weight), is_requested(grad_bias)};
  // The gradient of the bias does not depend on the bias. Pass zeros as the bias, because torch computes the
  // gradient only if a bias is given.
  const auto scale = flattened_or_none(weight, count);
  const auto bias = requested[2] ? std::make_optional(input.new_zeros({count})) : std::nullopt;
  const auto [of_input, of_weight, of_bias] = at::native_layer_norm_backward(grad.reshape({rows, count}),
                                                                             input.reshape({rows, count}),
                                                                             {count},
                                                                             mean.reshape({rows, 1}),
                                                                             rstd.reshape({rows, 1}),
                                                                             scale,
                                                                             bias,
                                                                             requested);
  if (requested[0]) {
    write(grad_input, of_input);
  }
  if (requested[1]) {
    write(grad_weight, of_weight);
  }
  if (requested[2]) {
    write(grad_bias, of_bias);
  }
}

}  // namespace

}  // namespace hpu_reference::dispatch

namespace at::native {

REGISTER_DEVICE_DISPATCH(LayerNormKernel, &hpu_reference::dispatch::layer_norm_forward)
REGISTER_DEVICE_DISPATCH(LayerNormBackwardKernel, &hpu_reference::dispatch::layer_norm_backward)

}  // namespace at::native
