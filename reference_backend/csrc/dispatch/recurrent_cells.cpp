// Fused cells of recurrent networks. torch calls these operators only for the key PrivateUse1; for the key
// HPU, torch computes the cells with other operators. The CPU has no kernels for these operators.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "device_key.h"

namespace hpu_reference::dispatch {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool has_value(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

// Returns the tensor in the dtype in which the cells compute: 16-bit floats are computed in float32.
at::Tensor to_compute_dtype(const at::Tensor& tensor) {
  const bool is_half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return is_half ? tensor.to(at::kFloat) : tensor;
}

// Returns the gates, plus the bias if there is one, divided into `count` parts.
std::vector<at::Tensor> add_bias_and_split(const at::Tensor& gates,
                                           const OptionalTensor& bias,
                                           std::int64_t count) {
  return (has_value(bias) ? to_compute_dtype(gates) + to_compute_dtype(*bias) : to_compute_dtype(gates))
      .chunk(count, 1);
}

// Returns the derivative of the sigmoid function, computed from the value of the function.
at::Tensor sigmoid_slope(const at::Tensor& value) {
  return value * (1 - value);
}

// Returns the derivative of the hyperbolic tangent, computed from the value of the function.
at::Tensor tanh_slope(const at::Tensor& value) {
  return 1 - value * value;
}

// The workspace holds the activated gates: input, forget, cell, output.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates,
                                                         const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx,
                                                         const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const auto from_input = add_bias_and_split(input_gates, input_bias, 4);
  const auto from_hidden = add_bias_and_split(hidden_gates, hidden_bias, 4);
  const at::Tensor input = at::sigmoid(from_input[0] + from_hidden[0]);
  const at::Tensor forget = at::sigmoid(from_input[1] + from_hidden[1]);
  const at::Tensor cell = at::tanh(from_input[2] + from_hidden[2]);
  const at::Tensor output = at::sigmoid(from_input[3] + from_hidden[3]);
  const at::Tensor cy = forget * to_compute_dtype(cx) + input * cell;
  const at::ScalarType type = input_gates.scalar_type();
  return {(output * at::tanh(cy)).to(type), cy.to(type), at::cat({input, forget, cell, output}, 1).to(type)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                                  const OptionalTensor& grad_cy,
                                                                  const at::Tensor& cx,
                                                                  const at::Tensor& cy,
                                                                  const at::Tensor& workspace,
                                                                  bool has_bias) {
  if (!has_value(grad_hy) && !has_value(grad_cy)) {
    return {};
  }
  const auto gates = to_compute_dtype(workspace).chunk(4, 1);
  const at::Tensor& input = gates[0];
  const at::Tensor& forget = gates[1];
  const at::Tensor& cell = gates[2];
  const at::Tensor& output = gates[3];
  const at::Tensor tanh_of_cy = at::tanh(to_compute_dtype(cy));
  const at::Tensor from_hy = has_value(grad_hy) ? to_compute_dtype(*grad_hy) : at::zeros_like(tanh_of_cy);
  at::Tensor grad_cell = from_hy * output * tanh_slope(tanh_of_cy);
  if (has_value(grad_cy)) {
    grad_cell = grad_cell + to_compute_dtype(*grad_cy);
  }
  const at::Tensor grad_gates = at::cat({grad_cell * cell * sigmoid_slope(input),
                                         grad_cell * to_compute_dtype(cx) * sigmoid_slope(forget),
                                         grad_cell * input * tanh_slope(cell),
                                         from_hy * tanh_of_cy * sigmoid_slope(output)},
                                        1);
  const at::ScalarType type = workspace.scalar_type();
  return {grad_gates.to(type),
          (grad_cell * forget).to(type),
          has_bias ? grad_gates.sum(0).to(type) : at::Tensor()};
}

// The workspace holds the reset, update and new gates, the hidden state, and the hidden part of the new gate.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates,
                                            const at::Tensor& hx,
                                            const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const auto from_input = add_bias_and_split(input_gates, input_bias, 3);
  const auto from_hidden = add_bias_and_split(hidden_gates, hidden_bias, 3);
  const at::Tensor hidden = to_compute_dtype(hx);
  const at::Tensor reset = at::sigmoid(from_input[0] + from_hidden[0]);
  const at::Tensor update = at::sigmoid(from_input[1] + from_hidden[1]);
  const at::Tensor candidate = at::tanh(from_input[2] + reset * from_hidden[2]);
  const at::ScalarType type = input_gates.scalar_type();
  return {(candidate + update * (hidden - candidate)).to(type),
          at::cat({reset, update, candidate, hidden, from_hidden[2]}, 1).to(type)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  const auto saved = to_compute_dtype(workspace).chunk(5, 1);
  const at::Tensor& reset = saved[0];
  const at::Tensor& update = saved[1];
  const at::Tensor& candidate = saved[2];
  const at::Tensor grad = to_compute_dtype(grad_hy);
  const at::Tensor of_update = grad * (saved[3] - candidate) * sigmoid_slope(update);
  const at::Tensor of_candidate = grad * (1 - update) * tanh_slope(candidate);
  const at::Tensor of_reset = of_candidate * saved[4] * sigmoid_slope(reset);
  const at::Tensor input_gates = at::cat({of_reset, of_update, of_candidate}, 1);
  const at::Tensor hidden_gates = at::cat({of_reset, of_update, of_candidate * reset}, 1);
  const at::ScalarType type = workspace.scalar_type();
  return {input_gates.to(type),
          hidden_gates.to(type),
          (grad * update).to(type),
          has_bias ? input_gates.sum(0).to(type) : at::Tensor(),
          has_bias ? hidden_gates.sum(0).to(type) : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  if (DEVICE_KEY_IS_PRIVATEUSE1) {
    m.impl("_thnn_fused_lstm_cell", lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
    m.impl("_thnn_fused_gru_cell", gru_cell);
    m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  }
}

}  // namespace hpu_reference::dispatch
