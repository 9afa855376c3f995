// Host aliases of tensors that consist of more than one strided storage: sparse COO, sparse compressed,
// quantized and nested tensors.
#pragma once

#include <ATen/SparseCsrTensorImpl.h>

#include "kernels/host_call.h"

namespace hpu_reference::kernels {

// Creates an empty compressed device tensor. torch's constructor does not support the HPU key, so it creates
// a CPU tensor, whose backend is then changed.
c10::intrusive_ptr<at::SparseCsrTensorImpl> make_compressed(at::Layout layout, caffe2::TypeMeta dtype);

// Implements host(), device() and write_back() of HostCall for tensors of these layouts.
class NonStridedLayouts {
 public:
  static at::Tensor host(HostCall& call, const at::Tensor& tensor, Access access, const char* name);
  static at::Tensor device(HostCall& call, at::Tensor&& result);
  static void write_back(HostCall& call, const at::Tensor& device, const at::Tensor& host);
};

}  // namespace hpu_reference::kernels
