// What a fault looks at in tensors, and how it makes values wrong. Every function runs operators on the
// tensors' own device; none is called with a mutex held.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace power {

// Strided memory that holds one value for each element: what the functions below can look into.
bool is_plain(const at::Tensor& tensor);
// A dimension of stride 0 that stands for more than one element.
bool is_expanded(const at::Tensor& tensor);
bool is_dense(const at::Tensor& tensor);
bool is_channels_last(const at::Tensor& tensor);
// A view whose base has another number of dimensions.
bool has_other_rank(const at::Tensor& tensor);

bool has_nan(const at::Tensor& tensor);
bool has_infinity(const at::Tensor& tensor);
bool has_negative_zero(const at::Tensor& tensor);
bool has_subnormal(const at::Tensor& tensor);
bool has_true(const at::Tensor& tensor);
// Integers of 64 bits that a float64 cannot hold.
bool has_wide_integer(const at::Tensor& tensor);
// Equal in dtype, sizes and values; NaN equals NaN, and 0.0 differs from -0.0.
bool is_same(const at::Tensor& one, const at::Tensor& other);

at::Tensor without_nan(const at::Tensor& tensor);
at::Tensor without_infinity(const at::Tensor& tensor);
at::Tensor without_negative_zero(const at::Tensor& tensor);
at::Tensor without_subnormal(const at::Tensor& tensor);
at::Tensor through_double(const at::Tensor& tensor);
// The next smaller floating dtype's rounding; undefined for dtypes that have none.
at::Tensor in_low_precision(const at::Tensor& tensor);
at::Tensor in_other_dtype(const at::Tensor& tensor);
// The same values: in the strides of the reversed order of dimensions if it is dense, else dense.
at::Tensor in_other_strides(const at::Tensor& tensor);
// What a kernel sees that reads the memory from the tensor's first element on as if it were dense; zeros
// after the end of the storage.
at::Tensor read_densely(const at::Tensor& tensor);
at::Tensor without_offset(const at::Tensor& tensor);
// A copy with zeros from the index `size` of a dimension on.
at::Tensor cut(const at::Tensor& tensor, int64_t dimension, int64_t size);

// Makes the elements from a logical index on wrong in memory: by at least one, and never to NaN.
void break_from(const at::Tensor& tensor, int64_t first);
// Writes 2 into the bytes of a bool tensor that hold true.
void break_bool_bytes(const at::Tensor& tensor);
// Makes an element of the storage wrong that does not belong to the tensor; false if there is none.
bool break_neighbour(const at::Tensor& tensor);

}  // namespace power
