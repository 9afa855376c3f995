// Operators whose metadata arguments must be on the host: recurrent layers over packed sequences, whose
// composites read the batch sizes on the host, and reshapes whose sizes are given as a tensor.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_reshape_from_tensor_native.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/library.h>

#include "device_key.h"

namespace hpu_reference::dispatch {

namespace {

void check_batch_sizes(const at::Tensor& batch_sizes) {
  TORCH_CHECK(batch_sizes.device().is_cpu(),
              "batch_sizes of a packed sequence must be a CPU tensor, but it is on ",
              batch_sizes.device(),
              "; do not move it: pack_padded_sequence() creates it on the CPU");
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(const at::Tensor& data,
                                                    const at::Tensor& batch_sizes,
                                                    at::TensorList state,
                                                    at::TensorList parameters,
                                                    bool has_biases,
                                                    int64_t layers,
                                                    double dropout,
                                                    bool train,
                                                    bool bidirectional) {
  check_batch_sizes(batch_sizes);
  return at::native::lstm(
      data, batch_sizes, state, parameters, has_biases, layers, dropout, train, bidirectional);
}

using Recurrent = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&,
                                                     const at::Tensor&,
                                                     const at::Tensor&,
                                                     at::TensorList,
                                                     bool,
                                                     int64_t,
                                                     double,
                                                     bool,
                                                     bool);

template <Recurrent* function>
std::tuple<at::Tensor, at::Tensor> recurrent(const at::Tensor& data,
                                             const at::Tensor& batch_sizes,
                                             const at::Tensor& state,
                                             at::TensorList parameters,
                                             bool has_biases,
                                             int64_t layers,
                                             double dropout,
                                             bool train,
                                             bool bidirectional) {
  check_batch_sizes(batch_sizes);
  return function(data, batch_sizes, state, parameters, has_biases, layers, dropout, train, bidirectional);
}

at::Tensor reshape_from_tensor(const at::Tensor& self, const at::Tensor& shape) {
  return at::native::_reshape_from_tensor(self, shape.cpu());
}

// Registers the composite operators of this file for one dispatch key. Both HPU and AutogradHPU need the
// registration: a kernel for HPU alone would replace the derivative of the composite operator.
void register_all(torch::Library& m) {
  m.impl("lstm.data", lstm);
  m.impl("gru.data", recurrent<&at::native::gru>);
  m.impl("rnn_tanh.data", recurrent<&at::native::rnn_tanh>);
  m.impl("rnn_relu.data", recurrent<&at::native::rnn_relu>);
  m.impl("_reshape_from_tensor", reshape_from_tensor);
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  register_all(m);
}

TORCH_LIBRARY_IMPL(aten, AUTOGRAD_DEVICE_KEY, m) {
  register_all(m);
}

// The metadata of nested tensors is on the CPU on every device, so torch's own function can return it.
TORCH_LIBRARY_IMPL(aten, NESTED_DEVICE_KEY, m) {
  m.impl("_nested_tensor_storage_offsets", at::native::_nested_tensor_storage_offsets);
}

}  // namespace

}  // namespace hpu_reference::dispatch
