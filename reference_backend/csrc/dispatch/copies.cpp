// Copies within the device and between it and the host, and the way of one element to Python.
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/copy_ops.h>
#include <torch/library.h>

#include "dispatch/host_call.h"

namespace hpu_reference::dispatch {

namespace {

const char* const kName = "aten::copy_";

// Either side may be a CPU tensor: both are host views or host tensors to the CPU's copy, which converts
// dtypes, resolves conj and neg bits and broadcasts.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  HostCall call(/*redirect=*/false);
  call.allow_cpu_tensors(true);
  const at::Tensor from = call.host(source, Access::Read, kName);
  at::Tensor to = is_device_tensor(self) ? call.host(self, Access::Write, kName) : self;
  at::_ops::copy_::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), to, from, non_blocking);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  at::Tensor target = destination;
  copy_(target, self, non_blocking);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  destination.resize_(self.sizes());
  return copy_from(self, destination, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  HostCall call(/*redirect=*/false);
  return at::native::_local_scalar_dense_cpu(call.host(self, Access::Read, "aten::_local_scalar_dense"));
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

TORCH_LIBRARY_IMPL(aten, QuantizedHPU, m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
}

}  // namespace

}  // namespace hpu_reference::dispatch
