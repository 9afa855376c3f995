// CPU tensor objects over host storages, for the time of one call. Making them is a measurable part of a
// small call (docs/operator-overhead.md), so each thread keeps a few for its next calls.
#pragma once

#include <ATen/core/Tensor.h>

namespace hpu_reference::kernels {

// The bits of a tensor's keys that stay the same on the other device: what is still to be done to its values.
inline constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate,
                                                c10::DispatchKey::Negative,
                                                c10::DispatchKey::ZeroTensor});

// Makes a CPU tensor over `host` with the dtype, sizes, strides, offset and lazy bits of a device tensor.
at::Tensor make_host_tensor(c10::intrusive_ptr<c10::StorageImpl> host, const c10::TensorImpl* device);

// The same for the time of one call: the object may be one that an earlier call returned.
at::Tensor take_host_tensor(c10::intrusive_ptr<c10::StorageImpl> host, const c10::TensorImpl* device);

// Takes one back; its storage is released. One that something else still holds, or that has got more than the
// next call may see, is only dropped.
void return_host_tensor(at::Tensor&& host);

}  // namespace hpu_reference::kernels
