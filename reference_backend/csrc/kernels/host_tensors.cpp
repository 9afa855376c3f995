#include "kernels/host_tensors.h"

#include <c10/core/InferenceMode.h>

#include <array>
#include <atomic>

#include "kernels/tensor_access.h"
#include "torch_release.h"

namespace hpu_reference::kernels {

namespace {

using Impl = c10::intrusive_ptr<c10::TensorImpl>;

thread_local bool tls_ended = false;  // true once the thread's cache is destroyed, at the end of the thread

// Cached tensor objects of one thread, in the state of a new CPU tensor without storage.
class TensorCache {
 public:
  ~TensorCache() {
    tls_ended = true;
  }

  Impl take() {
    return count_ == 0 ? Impl() : std::move(kept_[--count_]);
  }

  bool has_space() const {
    return count_ < kept_.size();
  }

  void add(Impl&& impl) {
    kept_[count_++] = std::move(impl);
  }

 private:
  std::array<Impl, 4> kept_;
  std::size_t count_ = 0;
};

TensorCache& tensor_cache() {
  thread_local TensorCache value;
  return value;
}

// Returns the keys of a strided CPU tensor that was created outside inference mode.
c10::DispatchKeySet plain_keys() {
  static const c10::DispatchKeySet keys = [] {
    const c10::InferenceMode mode(false);
    return Impl::make(c10::Storage(c10::make_intrusive<c10::StorageImpl>(
                          c10::StorageImpl::use_byte_size_t(),
                          0,
                          c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)),
                          nullptr,
                          false)),
                      c10::DispatchKeySet(c10::DispatchKey::CPU),
                      caffe2::TypeMeta::Make<float>())
        ->key_set();
  }();
  return keys;
}

void set_geometry(c10::TensorImpl* host, const c10::TensorImpl* device) {
  host->set_sizes_and_strides(device->sizes(), device->strides(), device->storage_offset());
  if (device->is_wrapped_number()) {
    host->set_wrapped_number(true);
  }
}

}  // namespace

at::Tensor make_host_tensor(c10::intrusive_ptr<c10::StorageImpl> host, const c10::TensorImpl* device) {
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::CPU) | (device->key_set() & kLazyBits);
  auto impl = Impl::make(c10::Storage(std::move(host)), keys, device->dtype());
  set_geometry(impl.get(), device);
  return at::Tensor(std::move(impl));
}

at::Tensor take_host_tensor(c10::intrusive_ptr<c10::StorageImpl> host, const c10::TensorImpl* device) {
  Impl impl;
  // The cache is not used in inference mode, which creates tensors with other keys and without a version
  // counter.
  if ((device->key_set() & kLazyBits).empty() && !tls_ended && !c10::InferenceMode::is_enabled()) {
    impl = tensor_cache().take();
  }
  if (!impl.defined()) {
    return make_host_tensor(std::move(host), device);
  }
  impl->set_storage_and_dtype(c10::Storage(std::move(host)), device->dtype());
  set_geometry(impl.get(), device);
  return at::Tensor(std::move(impl));
}

void return_host_tensor(at::Tensor&& host) {
  Impl impl = std::move(host).unsafeReleaseIntrusivePtr();
  if (tls_ended) {
    return;
  }
  TensorCache& cache = tensor_cache();
  if (cache.has_space() && impl.use_count() == 1 && impl.weak_use_count() == 1 &&
      impl->key_set() == plain_keys() && impl->autograd_meta() == nullptr && !impl->is_wrapped_number() &&
      !impl->has_symbolic_sizes_strides() && !has_python_object(impl.get())) {
    std::atomic_thread_fence(std::memory_order_acquire);  // another thread may have held a reference
    TensorAccess::storage(impl.get()) = c10::Storage();
    cache.add(std::move(impl));
  }
}

}  // namespace hpu_reference::kernels
