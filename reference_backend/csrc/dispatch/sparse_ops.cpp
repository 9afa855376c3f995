// Sparse tensors: metadata and parts, which need no host view (and must serve fake tensors, whose parts are
// on meta), and what torch's own code for compressed tensors refuses on a device that it does not know.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_dimI_native.h>
#include <ATen/ops/_dimV_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/values_native.h>
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
  m.impl("sparse_dim", at::native::sparse_dim_sparse_csr);
  m.impl("dense_dim", at::native::dense_dim_sparse_csr);
  m.impl("_nnz", at::native::_nnz_sparse_csr);
  m.impl("crow_indices", at::native::crow_indices_sparse_csr);
  m.impl("col_indices", at::native::col_indices_sparse_csr);
  m.impl("ccol_indices", at::native::ccol_indices_sparse_csr);
  m.impl("row_indices", at::native::row_indices_sparse_csr);
  m.impl("values", at::native::values_sparse_csr);
}

TORCH_LIBRARY_IMPL(aten, SparseHPU, m) {
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
