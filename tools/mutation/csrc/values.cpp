#include "values.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <limits>
#include <numeric>
#include <vector>

namespace mutation {

namespace {

bool any_true(const at::Tensor& mask) {
  return mask.any().item().toBool();
}

bool is_float(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type());
}

at::Tensor value_like(const at::Tensor& tensor, const at::Scalar& value) {
  return at::full({}, value, tensor.options());
}

// Return the smallest normal number of a floating-point dtype.
double smallest_normal(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::min();
    case at::kHalf:
      return 6.103515625e-05;
    default:
      return std::numeric_limits<float>::min();  // also the smallest normal number of bfloat16
  }
}

double largest_finite(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::max();
    case at::kHalf:
      return 65504;
    case at::kBFloat16:
      return 3.3895313892515355e38;
    default:
      return std::numeric_limits<float>::max();
  }
}

at::Tensor subnormals(const at::Tensor& tensor) {
  const at::Tensor size = tensor.abs();
  return size.gt(0).logical_and_(size.lt(smallest_normal(tensor.scalar_type())));
}

at::Tensor negative_zeros(const at::Tensor& tensor) {
  return tensor.eq(0).logical_and_(at::signbit(tensor));
}

at::Tensor changed_values(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kBool) {
    return tensor.logical_not();
  }
  const bool wide = at::isFloatingType(dtype) || at::isComplexType(dtype);
  const at::Tensor small = wide ? tensor.abs().lt(1) : tensor.eq(0);
  return at::where(small, value_like(tensor, 3), value_like(tensor, 0));
}

// Return whether the tensor's storage has memory. The storage of a wrapper subclass has none, because the
// wrapper only describes another tensor.
bool has_memory(const at::Tensor& tensor) {
  return tensor.has_storage() && (tensor.numel() == 0 || tensor.storage().data() != nullptr);
}

}  // namespace

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_nested() && has_memory(tensor) && !tensor.is_conj() && !tensor.is_neg();
}

bool is_expanded(const at::Tensor& tensor) {
  for (int64_t i = 0; i < tensor.dim(); i++) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) {
      return tensor.numel() > 0;
    }
  }
  return false;
}

bool is_dense(const at::Tensor& tensor) {
  return tensor.is_contiguous();
}

bool is_channels_last(const at::Tensor& tensor) {
  return !tensor.is_contiguous() &&
         ((tensor.dim() == 4 && tensor.is_contiguous(at::MemoryFormat::ChannelsLast)) ||
          (tensor.dim() == 5 && tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d)));
}

bool has_other_rank_than_base(const at::Tensor& tensor) {
  return tensor.is_view() && tensor._base().defined() && tensor._base().dim() != tensor.dim();
}

bool has_nan(const at::Tensor& tensor) {
  return is_float(tensor) && any_true(at::isnan(tensor));
}

bool has_infinity(const at::Tensor& tensor) {
  return is_float(tensor) && any_true(at::isinf(tensor));
}

bool has_negative_zero(const at::Tensor& tensor) {
  return is_float(tensor) && any_true(negative_zeros(tensor));
}

bool has_subnormal(const at::Tensor& tensor) {
  return is_float(tensor) && any_true(subnormals(tensor));
}

bool has_true(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool && any_true(tensor);
}

bool has_wide_integer(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong && any_true(rounded_to_double(tensor).ne(tensor));
}

bool have_equal_values(const at::Tensor& one, const at::Tensor& other) {
  if (one.defined() != other.defined()) {
    return false;
  }
  if (!one.defined()) {
    return true;
  }
  if (one.scalar_type() != other.scalar_type() || one.sizes() != other.sizes()) {
    return false;
  }
  if (one.numel() == 0 || !is_plain(one) || !is_plain(other)) {
    return true;
  }
  if (at::isFloat8Type(one.scalar_type())) {
    return one.contiguous().view(at::kByte).equal(other.contiguous().view(at::kByte));
  }
  at::Tensor equal = one.eq(other);
  if (is_float(one)) {
    equal = equal.logical_and_(at::signbit(one).eq(at::signbit(other)));
  }
  if (is_float(one) || at::isComplexType(one.scalar_type())) {
    equal = equal.logical_or_(one.ne(one).logical_and_(other.ne(other)));
  }
  return equal.all().item().toBool();
}

at::Tensor without_nan(const at::Tensor& tensor) {
  return at::where(at::isnan(tensor), value_like(tensor, 0), tensor);
}

at::Tensor without_infinity(const at::Tensor& tensor) {
  const double most = largest_finite(tensor.scalar_type());
  return at::where(at::isinf(tensor),
                   at::where(tensor.gt(0), value_like(tensor, most), value_like(tensor, -most)),
                   tensor);
}

at::Tensor without_negative_zero(const at::Tensor& tensor) {
  return at::where(negative_zeros(tensor), value_like(tensor, 0), tensor);
}

at::Tensor without_subnormal(const at::Tensor& tensor) {
  return at::where(subnormals(tensor), value_like(tensor, 0), tensor);
}

at::Tensor rounded_to_double(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).to(at::kLong);
}

at::Tensor rounded_to_low_precision(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return tensor.to(at::kBFloat16).to(at::kFloat);
    case at::kDouble:
      return tensor.to(at::kFloat).to(at::kDouble);
    case at::kComplexDouble:
      return tensor.to(at::kComplexFloat).to(at::kComplexDouble);
    default:
      return at::Tensor();
  }
}

at::Tensor in_other_dtype(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
      return tensor.to(at::kFloat);
    case at::kFloat:
      return tensor.to(at::kDouble);
    case at::kComplexFloat:
      return tensor.to(at::kComplexDouble);
    case at::kComplexDouble:
      return tensor.to(at::kComplexFloat);
    case at::kLong:
      return tensor.to(at::kInt);
    case at::kBool:
      return tensor.to(at::kByte);
    default:
      return tensor.to(at::kLong);
  }
}

at::Tensor in_other_strides(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) {
    return tensor.clone(at::MemoryFormat::Contiguous);
  }
  std::vector<int64_t> reversed(tensor.dim());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return tensor.permute(reversed).contiguous().permute(reversed);
}

at::Tensor read_densely(const at::Tensor& tensor) {
  const int64_t elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  const int64_t present = std::min(tensor.numel(), elements - tensor.storage_offset());
  at::Tensor dense = at::zeros({tensor.numel()}, tensor.options());
  dense.narrow(0, 0, present).copy_(tensor.as_strided({present}, {1}, tensor.storage_offset()));
  return dense.view(tensor.sizes());
}

at::Tensor without_offset(const at::Tensor& tensor) {
  return tensor.as_strided(tensor.sizes(), tensor.strides(), 0);
}

at::Tensor zero_from(const at::Tensor& tensor, int64_t dimension, int64_t size) {
  at::Tensor copy = tensor.clone();
  copy.narrow(dimension, size, copy.size(dimension) - size).zero_();
  return copy;
}

void corrupt_from(const at::Tensor& tensor, int64_t first) {
  at::Tensor flat = tensor.is_contiguous() ? tensor.view(-1) : tensor.reshape(-1);
  at::Tensor part = flat.narrow(0, first, flat.numel() - first);
  part.copy_(changed_values(part));
  if (!flat.is_alias_of(tensor)) {
    tensor.copy_(flat.view(tensor.sizes()));
  }
}

void corrupt_bool_bytes(const at::Tensor& tensor) {
  at::Tensor bytes = tensor.view(at::kByte);
  bytes.copy_(bytes.ne(0).to(at::kByte).mul_(2));
}

bool corrupt_unused_element(const at::Tensor& tensor) {
  const int64_t elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  at::Tensor all = tensor.as_strided({elements}, {1}, 0);
  // Mark the tensor's own elements by writing to a mask with the same strides.
  at::Tensor mask = at::ones({elements}, all.options().dtype(at::kBool));
  mask.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()).fill_(false);
  const at::Tensor others = mask.nonzero();
  if (others.numel() == 0) {
    return false;
  }
  const int64_t index = others.select(0, others.size(0) - 1).item().toLong();
  corrupt_from(all.narrow(0, index, 1), 0);
  return true;
}

}  // namespace mutation
