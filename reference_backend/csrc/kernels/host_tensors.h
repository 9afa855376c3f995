// CPU tensor objects over host storages, for the duration of one call. Creating them is a measurable part of
// a small call (docs/operator-overhead.md), so each thread caches a few objects.
#pragma once

#include <ATen/core/Tensor.h>

namespace hpu_reference::kernels {

// The key bits that are copied between device tensor and host alias: operations that are still to be applied
// to the values.
inline constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate,
                                                c10::DispatchKey::Negative,
                                                c10::DispatchKey::ZeroTensor});

// Creates a CPU tensor over `host` with the dtype, sizes, strides, offset and kLazyBits of a device tensor.
at::Tensor make_host_tensor(c10::intrusive_ptr<c10::StorageImpl> host, const c10::TensorImpl* device);

// Returns a CPU tensor as make_host_tensor() does, for the duration of one call. The object may come from the
// thread's cache.
at::Tensor take_host_tensor(c10::intrusive_ptr<c10::StorageImpl> host, const c10::TensorImpl* device);

// Returns a tensor object to the cache and releases its storage. An object that other code still references,
// or whose state differs from that of a new tensor, is dropped.
void return_host_tensor(at::Tensor&& host);

}  // namespace hpu_reference::kernels
