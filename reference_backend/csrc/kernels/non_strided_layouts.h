// Host views of tensors that are more than one strided storage: sparse COO and compressed, quantized, nested.
#pragma once

#include <ATen/SparseCsrTensorImpl.h>

#include "kernels/host_call.h"

namespace hpu_reference::kernels {

// Makes an empty compressed tensor of the device. torch's constructor knows no HPU key, so it makes one for
// the CPU, which then moves.
c10::intrusive_ptr<at::SparseCsrTensorImpl> make_compressed(at::Layout layout, caffe2::TypeMeta dtype);

// The part of HostCall for these layouts; see there for its methods.
class NonStridedLayouts {
 public:
  static at::Tensor host(HostCall& call, const at::Tensor& tensor, Access access, const char* name);
  static at::Tensor device(HostCall& call, at::Tensor&& result);
  static void write_back(HostCall& call, const at::Tensor& device, const at::Tensor& host);
};

}  // namespace hpu_reference::kernels
