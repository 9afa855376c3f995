// Loops over elements whose dtype may differ from the dtype of the computation.
#pragma once

#include "tiny.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

namespace tiny {

// Computes out = f(inputs...) for each element. Inputs have the C++ type T of the iterator's common dtype,
// and f may return any arithmetic type.
template <typename T, typename F, size_t... I>
inline void for_each_element(at::TensorIteratorBase& iterator, F f, std::index_sequence<I...>) {
  const auto to = iterator.dtype(0);
  const std::array<c10::ScalarType, sizeof...(I)> from{iterator.dtype(I + 1)...};
  iterator.serial_for_each(
      [&](char** data, const int64_t* strides, int64_t n) {
        char* out = to_host_address(data[0]);
        const std::array<const char*, sizeof...(I)> in{to_host_address(data[I + 1])...};
        for (int64_t i = 0; i < n; ++i) {
          store(out + i * strides[0], to, f(load<T>(in[I] + i * strides[I + 1], from[I])...));
        }
      },
      {0, iterator.numel()});
}

template <size_t Inputs, typename F>
inline void compute_elementwise(at::TensorIteratorBase& iterator, const char* name, F f) {
  if (iterator.numel() > 0) {
    dispatch_dtype(iterator.common_dtype(), name, [&](auto type) {
      for_each_element<decltype(type)>(iterator, f, std::make_index_sequence<Inputs>{});
    });
  }
}

// The dtype in which sums and products are computed.
template <typename T>
using WideType = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

// Check the device and the dtype of an out= argument, and resize it. torch's own devices do this in their
// structured kernels.
inline void check_and_resize_out(const at::Tensor& out,
                                 at::IntArrayRef sizes,
                                 const at::Tensor& like,
                                 std::optional<at::ScalarType> dtype) {
  TORCH_CHECK(out.device() == like.device(),
              "Expected all tensors to be on the same device, but out is on ",
              out.device(),
              " and the input is on ",
              like.device());
  TORCH_CHECK(!dtype || out.scalar_type() == *dtype,
              "Expected out tensor to have dtype ",
              *dtype,
              ", but got ",
              out.dtype(),
              " instead");
  at::native::resize_output(out, sizes);
}

}  // namespace tiny
