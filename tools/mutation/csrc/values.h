// Functions that test or change tensor values for mutants. Each function runs operators on the device of its
// tensors. Callers hold no mutex during a call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mutation {

// Return whether the tensor has strided memory with one value for each element. The functions below accept
// only such tensors.
bool is_plain(const at::Tensor& tensor);
// Return whether a dimension of stride 0 has more than one element.
bool is_expanded(const at::Tensor& tensor);
bool is_dense(const at::Tensor& tensor);
bool is_channels_last(const at::Tensor& tensor);
// Return whether the tensor is a view of a base with a different number of dimensions.
bool has_other_rank_than_base(const at::Tensor& tensor);

bool has_nan(const at::Tensor& tensor);
bool has_infinity(const at::Tensor& tensor);
bool has_negative_zero(const at::Tensor& tensor);
bool has_subnormal(const at::Tensor& tensor);
bool has_true(const at::Tensor& tensor);
// Return whether the tensor has int64 values that float64 does not represent.
bool has_wide_integer(const at::Tensor& tensor);
// Return whether dtypes, sizes and values are equal; NaN equals NaN, and 0.0 differs from -0.0.
bool have_equal_values(const at::Tensor& one, const at::Tensor& other);

at::Tensor without_nan(const at::Tensor& tensor);
at::Tensor without_infinity(const at::Tensor& tensor);
at::Tensor without_negative_zero(const at::Tensor& tensor);
at::Tensor without_subnormal(const at::Tensor& tensor);
at::Tensor rounded_to_double(const at::Tensor& tensor);
// Return the values rounded to the next smaller floating dtype, or an undefined tensor if no smaller dtype is
// defined.
at::Tensor rounded_to_low_precision(const at::Tensor& tensor);
at::Tensor in_other_dtype(const at::Tensor& tensor);
// Return a copy with different strides. The copy of a contiguous tensor stores the dimensions in reversed
// order. The copy of any other tensor is contiguous.
at::Tensor in_other_strides(const at::Tensor& tensor);
// Return the values of a tensor whose strided memory is read as if it were dense. Elements after the end of
// the storage are 0.
at::Tensor read_densely(const at::Tensor& tensor);
at::Tensor without_offset(const at::Tensor& tensor);
// Return a copy in which all elements from index `size` of `dimension` on are 0.
at::Tensor zero_from(const at::Tensor& tensor, int64_t dimension, int64_t size);

// Change all elements in memory from the logical index `first` on. Each element changes by at least one and
// never becomes NaN.
void corrupt_from(const at::Tensor& tensor, int64_t first);
// Write 2 to each byte of a bool tensor that holds true.
void corrupt_bool_bytes(const at::Tensor& tensor);
// Change one element of the tensor's storage that does not belong to the tensor. Return false if the storage
// has no such element.
bool corrupt_unused_element(const at::Tensor& tensor);

}  // namespace mutation
