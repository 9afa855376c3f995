// What torch's own code for compressed sparse tensors refuses on a device that it does not know.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "dispatch/extended_layouts.h"

namespace hpu_reference::dispatch {

namespace {

at::Tensor compressed_tensor_unsafe(const at::Tensor& compressed_indices,
                                    const at::Tensor& plain_indices,
                                    const at::Tensor& values,
                                    c10::SymIntArrayRef size,
                                    std::optional<at::ScalarType> dtype,
                                    std::optional<at::Layout> layout,
                                    std::optional<at::Device>,
                                    std::optional<bool>) {
  TORCH_CHECK(layout.has_value(), "expected a sparse compressed layout, but got none");
  auto impl = make_compressed(*layout, c10::scalarTypeToTypeMeta(dtype.value_or(values.scalar_type())));
  impl->set_member_tensors(compressed_indices, plain_indices, values, C10_AS_INTARRAYREF_SLOW(size));
  return at::Tensor(std::move(impl));
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("_sparse_compressed_tensor_unsafe", compressed_tensor_unsafe);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrHPU, m) {
  m.impl("_sparse_compressed_tensor_unsafe", compressed_tensor_unsafe);
}

}  // namespace

}  // namespace hpu_reference::dispatch
