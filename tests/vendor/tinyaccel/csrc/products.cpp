// Products of vectors, matrices and batches of them.
#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "kernels.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <vector>

namespace tiny {
namespace {

using at::Tensor;

// beta * self + alpha * (left @ right) for matrices or batches of them; `self` is broadcast.
void multiply(const Tensor& left,
              const Tensor& right,
              const Tensor* self,
              const at::Scalar& beta,
              const at::Scalar& alpha,
              const Tensor& out,
              const char* name) {
  const auto rank = left.dim();
  TORCH_CHECK(right.dim() == rank && left.size(rank - 1) == right.size(rank - 2) &&
                  (rank == 2 || left.size(0) == right.size(0)),
              name,
              ": shapes ",
              left.sizes(),
              " and ",
              right.sizes(),
              " cannot be multiplied");
  for (const Tensor* other : {&right, self == nullptr ? &left : self}) {
    TORCH_CHECK(other->device() == left.device(),
                "Expected all tensors to be on the same device, but found ",
                other->device(),
                " and ",
                left.device());
    TORCH_CHECK(other->scalar_type() == left.scalar_type(),
                name,
                ": expected the same dtype, but found ",
                other->dtype(),
                " and ",
                left.dtype());
  }
  auto sizes = left.sizes().vec();
  sizes.back() = right.size(rank - 1);
  check_and_resize_out(out, sizes, left, left.scalar_type());
  const auto a = left.contiguous(), b = right.contiguous();
  const int64_t m = a.size(rank - 2), k = a.size(rank - 1), n = b.size(rank - 1);
  const int64_t batches = rank == 3 ? a.size(0) : 1;
  const auto made = at::empty(out.sizes(), out.options());
  const bool adds = self != nullptr && beta.toDouble() != 0;
  const auto added = adds ? self->expand(out.sizes()).contiguous() : made;
  dispatch_dtype(out.scalar_type(), name, [&](auto type) {
    typedef decltype(type) T;
    const T* x = to_host_address(static_cast<const T*>(a.const_data_ptr()));
    const T* y = to_host_address(static_cast<const T*>(b.const_data_ptr()));
    const T* z = to_host_address(static_cast<const T*>(added.const_data_ptr()));
    T* to = to_host_address(static_cast<T*>(made.mutable_data_ptr()));
    for (int64_t at = 0; at < batches * m * n; ++at) {
      const int64_t batch = at / (m * n), row = at / n % m, column = at % n;
      WideType<T> total = 0;
      for (int64_t i = 0; i < k; ++i) {
        total += static_cast<WideType<T>>(x[(batch * m + row) * k + i]) * y[(batch * k + i) * n + column];
      }
      total *= alpha.to<WideType<T>>();
      to[at] = static_cast<T>(adds ? total + beta.to<WideType<T>>() * z[at] : total);
    }
  });
  out.copy_(made);
}

Tensor& mm(const Tensor& self, const Tensor& other, Tensor& out) {
  multiply(self, other, nullptr, 0, 1, out, "mm");
  return out;
}

Tensor& bmm(const Tensor& self, const Tensor& other, Tensor& out) {
  multiply(self, other, nullptr, 0, 1, out, "bmm");
  return out;
}

Tensor& addmm(const Tensor& self,
              const Tensor& left,
              const Tensor& right,
              const at::Scalar& beta,
              const at::Scalar& alpha,
              Tensor& out) {
  multiply(left, right, &self, beta, alpha, out, "addmm");
  return out;
}

Tensor& baddbmm(const Tensor& self,
                const Tensor& left,
                const Tensor& right,
                const at::Scalar& beta,
                const at::Scalar& alpha,
                Tensor& out) {
  multiply(left, right, &self, beta, alpha, out, "baddbmm");
  return out;
}

Tensor& addmv(const Tensor& self,
              const Tensor& left,
              const Tensor& right,
              const at::Scalar& beta,
              const at::Scalar& alpha,
              Tensor& out) {
  TORCH_CHECK(left.dim() == 2 && right.dim() == 1,
              "addmv: a matrix and a vector expected, but got ",
              left.dim(),
              "D and ",
              right.dim(),
              "D");
  check_and_resize_out(out, {left.size(0)}, left, left.scalar_type());
  const auto added = self.dim() > 0 ? self.unsqueeze(1) : self;
  multiply(left, right.unsqueeze(1), &added, beta, alpha, out.unsqueeze(1), "addmv");
  return out;
}

Tensor dot(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1,
              "1D tensors expected, but got ",
              self.dim(),
              "D and ",
              other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype");
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size");
  auto out = at::empty({1, 1}, self.options());
  multiply(self.unsqueeze(0), other.unsqueeze(1), nullptr, 0, 1, out, "dot");
  return out.squeeze();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (development_stage() < 3) {
    return;
  }
  m.impl("mm.out", mm);
  if (development_stage() < 4) {
    return;
  }
  m.impl("bmm.out", bmm);
  m.impl("addmm.out", addmm);
  m.impl("addmv.out", addmv);
  m.impl("baddbmm.out", baddbmm);
  m.impl("dot", dot);
}

}  // namespace
}  // namespace tiny
