// Access to protected members of TensorImpl, for turning a CPU tensor into a device tensor in place.
#pragma once

#include <c10/core/TensorImpl.h>

namespace hpu_reference::kernels {

struct TensorAccess : c10::TensorImpl {
  static std::optional<c10::Device>& device(c10::TensorImpl* impl) {
    return impl->*(&TensorAccess::device_opt_);
  }
  static c10::DispatchKeySet& keys(c10::TensorImpl* impl) {
    return impl->*(&TensorAccess::key_set_);
  }
  static c10::Storage& storage(c10::TensorImpl* impl) {
    return impl->*(&TensorAccess::storage_);
  }
};

// Replaces the backend (CPU or HPU) in the tensor's keys and its device. The caller must replace the storage.
inline void change_backend(c10::TensorImpl* impl, c10::Device device) {
  impl->_change_backend_component_keys(device);
  TensorAccess::device(impl) = device;
}

}  // namespace hpu_reference::kernels
