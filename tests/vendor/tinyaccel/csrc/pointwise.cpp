// Elementwise kernels.
#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "kernels.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

namespace tiny {
namespace {

using at::Scalar;
using at::Tensor;
using at::TensorIterator;

Tensor scalar_tensor(const Scalar& value) {
  Tensor wrapped = c10::scalar_to_tensor(value);
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  return wrapped;
}

// Macros that define a kernel from an EXPRESSION of the elements `x` and `y`, which have type T. KIND is a
// TensorIterator factory; a floating-point factory converts integers to floating-point numbers.
#define UNARY(NAME, KIND, EXPRESSION)                    \
  Tensor& NAME(const Tensor& self, Tensor& out) {        \
    auto iterator = TensorIterator::KIND(out, self);     \
    compute_elementwise<1>(iterator, #NAME, [](auto x) { \
      [[maybe_unused]] typedef decltype(x) T;            \
      return EXPRESSION;                                 \
    });                                                  \
    return out;                                          \
  }
#define BINARY(NAME, KIND, EXPRESSION)                                 \
  Tensor& NAME(const Tensor& self, const Tensor& other, Tensor& out) { \
    auto iterator = TensorIterator::KIND(out, self, other);            \
    compute_elementwise<2>(iterator, #NAME, [](auto x, auto y) {       \
      [[maybe_unused]] typedef decltype(x) T;                          \
      return EXPRESSION;                                               \
    });                                                                \
    return out;                                                        \
  }
#define COMPARISON(NAME, EXPRESSION)                                            \
  BINARY(NAME, comparison_op, EXPRESSION)                                       \
  Tensor& NAME##_number(const Tensor& self, const Scalar& other, Tensor& out) { \
    return NAME(self, scalar_tensor(other), out);                               \
  }

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  }
  return false;
}

UNARY(negative, unary_op, static_cast<T>(-x))
UNARY(absolute, unary_op, (x < T(0) ? static_cast<T>(-x) : x == T(0) ? T(0) : x))
UNARY(sign, unary_op, static_cast<T>((x > T(0)) - (x < T(0))))
UNARY(square_root, unary_float_op, std::sqrt(x))
UNARY(reciprocal_square_root, unary_float_op, T(1) / std::sqrt(x))
UNARY(reciprocal, unary_float_op, T(1) / x)
UNARY(exponential, unary_float_op, std::exp(x))
UNARY(logarithm, unary_float_op, std::log(x))
UNARY(sine, unary_float_op, std::sin(x))
UNARY(cosine, unary_float_op, std::cos(x))
UNARY(hyperbolic_tangent, unary_float_op, std::tanh(x))
UNARY(sigmoid, unary_float_op, T(1) / (T(1) + std::exp(-x)))
UNARY(round_down, unary_op, static_cast<T>(std::floor(x)))
UNARY(round_up, unary_op, static_cast<T>(std::ceil(x)))

BINARY(multiply, binary_op, static_cast<T>(x* y))
BINARY(divide, binary_float_op, x / y)
BINARY(larger, binary_op, (is_nan(x) || x > y ? x : y))
BINARY(smaller, binary_op, (is_nan(x) || x < y ? x : y))
COMPARISON(equal, x == y)
COMPARISON(differs, x != y)
COMPARISON(less, x < y)
COMPARISON(at_most, x <= y)
COMPARISON(greater, x > y)
COMPARISON(at_least, x >= y)
BINARY(both, comparison_op, (x != T(0)) && (y != T(0)))
BINARY(either, comparison_op, (x != T(0)) || (y != T(0)))

template <typename T>
T power_of(T base, T exponent) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(base, exponent);
  } else {
    if (exponent < T(0)) {
      return base == T(1) ? T(1) : base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
    }
    T result(1);
    for (; exponent > T(0); exponent = static_cast<T>(exponent >> 1), base = static_cast<T>(base * base)) {
      if (exponent & 1) {
        result = static_cast<T>(result * base);
      }
    }
    return result;
  }
}

BINARY(power, binary_op, power_of(x, y))

Tensor& power_by_scalar(const Tensor& self, const Scalar& exponent, Tensor& out) {
  return power(self, scalar_tensor(exponent), out);
}

Tensor& power_of_scalar(const Scalar& base, const Tensor& exponent, Tensor& out) {
  return power(scalar_tensor(base), exponent, out);
}

Tensor& add(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  auto iterator = TensorIterator::binary_op(out, self, other);
  compute_elementwise<2>(iterator, "add", [&](auto x, auto y) {
    typedef decltype(x) T;
    return static_cast<T>(x + alpha.to<T>() * y);
  });
  return out;
}

Tensor& subtract(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  auto iterator = TensorIterator::binary_op(out, self, other);
  compute_elementwise<2>(iterator, "sub", [&](auto x, auto y) {
    typedef decltype(x) T;
    return static_cast<T>(x - alpha.to<T>() * y);
  });
  return out;
}

Tensor& relu_(Tensor& self) {
  auto iterator = TensorIterator::unary_op(self, self);
  compute_elementwise<1>(iterator, "relu", [](auto x) { return x < decltype(x)(0) ? decltype(x)(0) : x; });
  return self;
}

Tensor relu(const Tensor& self) {
  Tensor out;
  auto iterator = TensorIterator::unary_op(out, self);
  compute_elementwise<1>(iterator, "relu", [](auto x) { return x < decltype(x)(0) ? decltype(x)(0) : x; });
  return iterator.output();
}

// Operators with a bool result for inputs of any dtype.
Tensor& logical_not(const Tensor& self, Tensor& out) {
  auto iterator =
      at::TensorIteratorConfig().check_all_same_dtype(false).add_output(out).add_const_input(self).build();
  dispatch_dtype(self.scalar_type(), "logical_not", [&](auto type) {
    typedef decltype(type) T;
    for_each_element<T>(iterator, [](T x) { return x == T(0); }, std::make_index_sequence<1>{});
  });
  return out;
}

Tensor& bitwise_not(const Tensor& self, Tensor& out) {
  auto iterator = TensorIterator::unary_op(out, self);
  compute_elementwise<1>(iterator, "bitwise_not", [](auto x) {
    typedef decltype(x) T;
    if constexpr (std::is_same_v<T, bool>) {
      return !x;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(~x);
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"bitwise_not\" not implemented for floating point on tiny");
      return x;
    }
  });
  return out;
}

template <typename F>
Tensor& apply_bitwise(const Tensor& self, const Tensor& other, Tensor& out, const char* name, F f) {
  auto iterator = TensorIterator::binary_op(out, self, other);
  compute_elementwise<2>(iterator, name, [&](auto x, auto y) {
    typedef decltype(x) T;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(f(x, y));
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"", name, "\" not implemented for floating point on tiny");
      return x;
    }
  });
  return out;
}

Tensor& bitwise_and(const Tensor& self, const Tensor& other, Tensor& out) {
  return apply_bitwise(self, other, out, "bitwise_and", [](auto x, auto y) { return x & y; });
}

Tensor& bitwise_or(const Tensor& self, const Tensor& other, Tensor& out) {
  return apply_bitwise(self, other, out, "bitwise_or", [](auto x, auto y) { return x | y; });
}

Tensor& fill_with_scalar(Tensor& self, const Scalar& value) {
  // Elements of `self` may overlap in memory, because all elements get the same value.
  auto iterator = at::TensorIteratorConfig()
                      .set_check_mem_overlap(false)
                      .check_all_same_dtype(false)
                      .resize_outputs(false)
                      .add_output(self)
                      .build();
  dispatch_dtype(self.scalar_type(), "fill_", [&](auto type) {
    typedef decltype(type) T;
    const T chosen = value.to<T>();
    for_each_element<T>(iterator, [=] { return chosen; }, std::make_index_sequence<0>{});
  });
  return self;
}

Tensor& fill_with_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ takes a tensor of 0 dimensions, not of ", value.dim());
  return self.copy_(value);
}

Tensor& zero_(Tensor& self) {
  return fill_with_scalar(self, 0);
}

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const auto dtype = at::result_type(self, other);
  TORCH_CHECK(
      condition.scalar_type() == at::kBool, "where: the condition must be bool, not ", condition.dtype());
  auto iterator = at::TensorIteratorConfig()
                      .check_all_same_dtype(false)
                      .allow_cpu_scalars(true)
                      .declare_static_dtype(dtype)
                      .add_output(out)
                      .add_const_input(condition)
                      .add_const_input(self)
                      .add_const_input(other)
                      .build();
  if (iterator.numel() > 0) {
    dispatch_dtype(dtype, "where", [&](auto type) {
      typedef decltype(type) T;
      for_each_element<T>(
          iterator, [](T chosen, T x, T y) { return chosen != T(0) ? x : y; }, std::make_index_sequence<3>{});
    });
  }
  out = iterator.output();
  return out;
}

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  Tensor out;
  return where_out(condition, self, other, out);
}

Tensor& clamp(const Tensor& self,
              const std::optional<Scalar>& low,
              const std::optional<Scalar>& high,
              Tensor& out) {
  auto iterator = TensorIterator::unary_op(out, self);
  // The meta kernel has chosen the dtype of the result. The iterator converts the input to this dtype.
  dispatch_dtype(out.scalar_type(), "clamp", [&](auto type) {
    typedef decltype(type) T;
    for_each_element<T>(
        iterator,
        [&](T x) {
          x = low && x < low->to<T>() ? low->to<T>() : x;
          return high && x > high->to<T>() ? high->to<T>() : x;
        },
        std::make_index_sequence<1>{});
  });
  return out;
}

Tensor& clamp_by_tensors(const Tensor& self,
                         const std::optional<Tensor>& low,
                         const std::optional<Tensor>& high,
                         Tensor& out) {
  if (!low || !high) {
    return low ? larger(self, *low, out) : smaller(self, *high, out);
  }
  auto iterator = at::TensorIteratorConfig()
                      .allow_cpu_scalars(true)
                      .promote_inputs_to_common_dtype(true)
                      .add_output(out)
                      .add_const_input(self)
                      .add_const_input(*low)
                      .add_const_input(*high)
                      .build();
  compute_elementwise<3>(iterator, "clamp", [](auto x, auto from, auto to) {
    x = is_nan(x) ? x : is_nan(from) || x < from ? from : x;
    return is_nan(x) ? x : is_nan(to) || x > to ? to : x;
  });
  return out;
}

Tensor& arange(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  dispatch_dtype(out.scalar_type(), "arange", [&](auto type) {
    typedef decltype(type) T;
    const double count = std::ceil((end.toDouble() - start.toDouble()) / step.toDouble());
    TORCH_CHECK(step.toDouble() != 0, "step must be nonzero");
    TORCH_CHECK(count >= 0, "upper bound and lower bound inconsistent with step sign");
    if (out.numel() != static_cast<int64_t>(count)) {
      out.resize_({static_cast<int64_t>(count)});
    }
    auto iterator = TensorIterator::nullary_op(out);
    int64_t index = 0;
    for_each_element<T>(
        iterator,
        [&]() -> T {
          if constexpr (std::is_floating_point_v<T>) {
            return static_cast<T>(start.toDouble() + step.toDouble() * static_cast<double>(index++));
          } else {
            return static_cast<T>(start.toLong() + step.toLong() * index++);
          }
        },
        std::make_index_sequence<0>{});
  });
  return out;
}

Tensor& threshold_backward(const Tensor& gradient, const Tensor& self, const Scalar& threshold, Tensor& out) {
  auto iterator = TensorIterator::binary_op(out, gradient, self);
  compute_elementwise<2>(iterator, "threshold_backward", [&](auto g, auto x) {
    typedef decltype(x) T;
    return x <= threshold.to<T>() ? T(0) : g;
  });
  return out;
}

BINARY(sigmoid_backward, binary_op, static_cast<T>(x * y * (T(1) - y)))
BINARY(tanh_backward, binary_op, static_cast<T>(x*(T(1) - y * y)))

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (development_stage() < 3) {
    return;
  }
  m.impl("fill_.Scalar", fill_with_scalar);
  m.impl("fill_.Tensor", fill_with_tensor);
  m.impl("zero_", zero_);
  m.impl("add.out", add);
  m.impl("sub.out", subtract);
  m.impl("mul.out", multiply);
  m.impl("div.out", divide);
  m.impl("eq.Tensor_out", equal);
  m.impl("eq.Scalar_out", equal_number);
  m.impl("ne.Tensor_out", differs);
  m.impl("ne.Scalar_out", differs_number);
  m.impl("lt.Tensor_out", less);
  m.impl("lt.Scalar_out", less_number);
  m.impl("le.Tensor_out", at_most);
  m.impl("le.Scalar_out", at_most_number);
  m.impl("gt.Tensor_out", greater);
  m.impl("gt.Scalar_out", greater_number);
  m.impl("ge.Tensor_out", at_least);
  m.impl("ge.Scalar_out", at_least_number);
  m.impl("neg.out", negative);
  m.impl("abs.out", absolute);
  m.impl("exp.out", exponential);
  m.impl("relu", relu);
  m.impl("relu_", relu_);
  if (development_stage() < 4) {
    return;
  }
  m.impl("sgn.out", sign);
  m.impl("sign.out", sign);
  m.impl("sqrt.out", square_root);
  m.impl("rsqrt.out", reciprocal_square_root);
  m.impl("reciprocal.out", reciprocal);
  m.impl("log.out", logarithm);
  m.impl("sin.out", sine);
  m.impl("cos.out", cosine);
  m.impl("tanh.out", hyperbolic_tangent);
  m.impl("sigmoid.out", sigmoid);
  m.impl("floor.out", round_down);
  m.impl("ceil.out", round_up);
  m.impl("maximum.out", larger);
  m.impl("minimum.out", smaller);
  m.impl("logical_and.out", both);
  m.impl("logical_or.out", either);
  m.impl("logical_not.out", logical_not);
  m.impl("bitwise_not.out", bitwise_not);
  m.impl("bitwise_and.Tensor_out", bitwise_and);
  m.impl("bitwise_or.Tensor_out", bitwise_or);
  m.impl("pow.Tensor_Tensor_out", power);
  m.impl("pow.Tensor_Scalar_out", power_by_scalar);
  m.impl("pow.Scalar_out", power_of_scalar);
  m.impl("where.self", where);
  m.impl("where.self_out", where_out);
  m.impl("clamp.out", clamp);
  m.impl("clamp.Tensor_out", clamp_by_tensors);
  m.impl("arange.start_out", arange);
  m.impl("threshold_backward.grad_input", threshold_backward);
  m.impl("sigmoid_backward.grad_input", sigmoid_backward);
  m.impl("tanh_backward.grad_input", tanh_backward);
}

}  // namespace
}  // namespace tiny
