// Kernels that concatenate tensors, and kernels that select elements by index or mask.
#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "kernels.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <torch/library.h>

#include <vector>

namespace tiny {
namespace {

using at::Tensor;

Tensor& cat(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  // torch.cat ignores tensors of shape [0], even if the other tensors have more dimensions.
  const auto skipped = [](const Tensor& part) { return part.dim() == 1 && part.numel() == 0; };
  std::vector<Tensor> parts;
  std::vector<int64_t> sizes{0};
  for (const Tensor& part : tensors) {
    TORCH_CHECK(part.device() == out.device(),
                "Expected all tensors to be on the same device, but found ",
                part.device(),
                " and ",
                out.device());
    if (!skipped(part)) {
      sizes = part.sizes().vec();
      parts.push_back(part);
    }
  }
  dim = parts.empty() ? 0 : c10::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  sizes[dim] = 0;
  for (const auto& part : parts) {
    TORCH_CHECK(part.dim() == static_cast<int64_t>(sizes.size()),
                "Tensors must have same number of dimensions: got ",
                sizes.size(),
                " and ",
                part.dim());
    sizes[dim] += part.size(dim);
  }
  at::native::resize_output(out, sizes);
  int64_t start = 0;
  for (const auto& part : parts) {
    out.narrow(dim, start, part.size(dim)).copy_(part);
    start += part.size(dim);
  }
  return out;
}

Tensor select_by_index(const Tensor& self, int64_t dim, const Tensor& index) {
  TORCH_CHECK(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index, not ",
              index.dtype());
  const auto places = index.to(at::kCPU, at::kLong).contiguous();
  const auto rank = self.dim();
  dim = c10::maybe_wrap_dim(dim, rank);
  auto sizes = self.sizes().vec();
  if (rank > 0) {
    sizes[dim] = places.numel();
  }
  auto out = at::empty(sizes, self.options());
  const int64_t* place = places.const_data_ptr<int64_t>();
  const int64_t limit = rank > 0 ? self.size(dim) : 1;
  for (int64_t i = 0; i < places.numel(); ++i) {
    TORCH_CHECK_INDEX(place[i] >= 0 && place[i] < limit, "index out of range in self");
    if (rank > 0) {
      out.select(dim, i).copy_(self.select(dim, place[i]));
    } else {
      out.copy_(self);
    }
  }
  return out;
}

// Finds the selected elements on the host, because the host needs their number to allocate the result.
Tensor masked_select(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto sizes = at::infer_size(self.sizes(), mask.sizes());
  const auto host = mask.to(at::kCPU).expand(sizes).contiguous();
  const bool* chosen = host.const_data_ptr<bool>();
  std::vector<int64_t> places;
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (chosen[i]) {
      places.push_back(i);
    }
  }
  const auto index = at::empty({static_cast<int64_t>(places.size())}, at::kLong);
  std::copy(places.begin(), places.end(), index.mutable_data_ptr<int64_t>());
  return select_by_index(self.expand(sizes).reshape({-1}), 0, index);
}

// Computes the flat index of each selected element on the host, by indexing a tensor of flat indices.
Tensor& index(const Tensor& self, const c10::List<std::optional<Tensor>>& indices, Tensor& out) {
  c10::List<std::optional<Tensor>> there;
  for (const auto& entry : indices) {
    const std::optional<Tensor> given = entry;
    there.push_back(given && given->defined() ? std::optional(given->to(at::kCPU)) : std::nullopt);
  }
  const auto places = at::index(at::arange(self.numel(), at::kLong).view(self.sizes()), there);
  check_and_resize_out(out, places.sizes(), self, self.scalar_type());
  out.copy_(select_by_index(self.reshape({-1}), 0, places.reshape({-1})).view(places.sizes()));
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  if (development_stage() < 4) {
    return;
  }
  m.impl("cat.out", cat);
  m.impl("index_select", select_by_index);
  m.impl("masked_select", masked_select);
  m.impl("index.Tensor_out", index);
}

}  // namespace
}  // namespace tiny
