// Kernels for sparse tensors. Operators that return metadata or parts of a tensor need no host alias, and
// they must accept fake tensors, whose parts are meta tensors. The other operators of this file replace code
// of torch that rejects compressed tensors on a device that torch does not know.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_dimI_native.h>
#include <ATen/ops/_dimV_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_validate_sparse_compressed_tensor_args.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like_native.h>
#include <torch/library.h>

#include "device_key.h"
#include "kernels/non_strided_layouts.h"
#include "runtime/device.h"

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
  // torch's check rejects devices that torch does not know, so check copies on the CPU. Fake tensors have no
  // values to check.
  if (at::globalContext().checkSparseTensorInvariants() && !values.is_meta()) {
    at::_validate_sparse_compressed_tensor_args(
        compressed_indices.cpu(), plain_indices.cpu(), values.cpu(), C10_AS_INTARRAYREF_SLOW(size), *layout);
  }
  auto impl =
      kernels::make_compressed(*layout, c10::scalarTypeToTypeMeta(dtype.value_or(values.scalar_type())));
  impl->set_member_tensors(compressed_indices, plain_indices, values, C10_AS_INTARRAYREF_SLOW(size));
  return at::Tensor(std::move(impl));
}

// Replaces torch's function, which cannot create a compressed tensor on hpu. This function also accepts meta
// tensors, because torch calls this function when it converts a compressed tensor to a fake tensor.
at::Tensor compressed_zeros_like(const at::Tensor& self,
                                 std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout,
                                 std::optional<at::Device> device,
                                 std::optional<bool> pin_memory,
                                 std::optional<at::MemoryFormat> memory_format) {
  if (device.value_or(self.device()).type() != c10::DeviceType::DEVICE_KEY ||
      layout.value_or(self.layout()) != self.layout()) {
    return at::native::zeros_like(self, dtype, layout, device, pin_memory, memory_format);
  }
  const auto* source = static_cast<const at::SparseCsrTensorImpl*>(self.unsafeGetTensorImpl());
  const auto options = at::TensorOptions().device(runtime::kDevice);
  auto indices_shape = source->plain_indices().sizes().vec();
  auto values = source->values().sizes().vec();
  values[indices_shape.size() - 1] = 0;  // no specified elements
  indices_shape.back() = 0;
  const auto indices = options.dtype(source->plain_indices().scalar_type());
  const at::ScalarType type = dtype.value_or(self.scalar_type());
  auto impl = kernels::make_compressed(self.layout(), c10::scalarTypeToTypeMeta(type));
  impl->set_member_tensors(at::zeros(source->compressed_indices().sizes(), indices),
                           at::empty(indices_shape, indices),
                           at::empty(values, options.dtype(type)),
                           self.sizes());
  return at::Tensor(std::move(impl));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrMeta, m) {
  m.impl("zeros_like", compressed_zeros_like);
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  m.impl("_sparse_compressed_tensor_unsafe", compressed_tensor_unsafe);
}

TORCH_LIBRARY_IMPL(aten, SPARSE_CSR_DEVICE_KEY, m) {
  m.impl("zeros_like", compressed_zeros_like);
  m.impl("_sparse_compressed_tensor_unsafe", compressed_tensor_unsafe);
  m.impl("sparse_dim", at::native::sparse_dim_sparse_csr);
  m.impl("dense_dim", at::native::dense_dim_sparse_csr);
  m.impl("_nnz", at::native::_nnz_sparse_csr);
  m.impl("crow_indices", at::native::crow_indices_sparse_csr);
  m.impl("col_indices", at::native::col_indices_sparse_csr);
  m.impl("ccol_indices", at::native::ccol_indices_sparse_csr);
  m.impl("row_indices", at::native::row_indices_sparse_csr);
  m.impl("values", at::native::values_sparse_csr);
}

TORCH_LIBRARY_IMPL(aten, SPARSE_DEVICE_KEY, m) {
  m.impl("_dimI", at::native::sparse_dim_sparse);
  m.impl("_dimV", at::native::dense_dim_sparse);
  m.impl("sparse_dim", at::native::sparse_dim_sparse);
  m.impl("dense_dim", at::native::dense_dim_sparse);
  m.impl("_nnz", at::native::_nnz_sparse);
  m.impl("is_coalesced", at::native::is_coalesced_sparse);
  m.impl("_coalesced_", at::native::_coalesced_sparse_);
  m.impl("_indices", at::native::_indices_sparse);
  m.impl("_values", at::native::_values_sparse);
  m.impl("indices", at::native::indices_sparse);
  m.impl("values", at::native::values_sparse);
}

}  // namespace

}  // namespace hpu_reference::dispatch
