#include "kernels/host_call.h"

#include <cstring>

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>

#include "device_key.h"
#include "kernels/hardware_limits.h"
#include "kernels/host_tensors.h"
#include "kernels/non_strided_layouts.h"
#include "kernels/tensor_access.h"
#include "memory/access_set.h"
#include "memory/allocator.h"
#include "memory/host_storage.h"
#include "runtime/device.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"

namespace hpu_reference::kernels {

namespace {

// Returns the dispatch keys that are excluded while the CPU kernel runs: autograd and autocast must not run
// again.
c10::DispatchKeySet excluded_keys() {
  static const c10::DispatchKeySet keys = c10::autograd_dispatch_keyset |
                                          c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) |
                                          c10::autocast_dispatch_keyset;
  return keys;
}

bool is_plain_dense(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet non_strided({c10::DispatchKey::Sparse,
                                             c10::DispatchKey::SparseCsr,
                                             c10::DispatchKey::Quantized,
                                             c10::DispatchKey::NestedTensor});
  return !keys.has_any(non_strided);
}

[[noreturn]] void throw_devices(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, " DEVICE_NAME
              ":0 and ",
              tensor.device(),
              "! (operator ",
              name,
              "; move the tensor with .to('" DEVICE_NAME "') or take it to the CPU with .cpu())");
}

void prepare(bool throw_errors, bool recorder_declined) {
  if (!recorder_declined) {
    runtime::refuse_during_capture();
  }
  runtime::wait_for_earlier_work(throw_errors);
}

}  // namespace

HostCall::HostCall(bool redirect, bool throw_errors, bool recorder_declined)
    : keys_((runtime::acquire(),
             runtime::is_work_pending() ? prepare(throw_errors, recorder_declined) : void(),
             excluded_keys())),
      redirect_(redirect),
      throw_errors_(throw_errors) {
}

// Minimum number of arguments for the lookup by address. Optimizers pass thousands of tensors in one call.
constexpr std::size_t kMany = 24;

template <class Pairs, class Positions, class Match>
auto* find_pair(const Pairs& pairs, const Positions& positions, const void* address, Match match) {
  using Pair = std::remove_reference_t<decltype(pairs[0])>;
  if (pairs.size() <= kMany) {
    for (const auto& pair : pairs) {
      if (match(pair)) {
        return &pair;
      }
    }
    return static_cast<Pair*>(nullptr);
  }
  const auto position = positions->find(address);
  return position == positions->end() ? nullptr : &pairs[position->second];
}

template <class Pairs, class Positions, class Addresses>
void add_pair(Pairs& pairs, Positions& positions, typename Pairs::value_type&& pair, Addresses addresses) {
  if (pairs.size() >= kMany && positions == nullptr) {
    positions = std::make_unique<typename Positions::element_type>();
  }
  pairs.push_back(std::move(pair));
  if (pairs.size() > kMany) {
    for (std::size_t i = pairs.size() == kMany + 1 ? 0 : pairs.size() - 1; i < pairs.size(); i++) {
      const auto [first, second] = addresses(pairs[i]);
      positions->emplace(first, i);
      positions->emplace(second, i);
    }
  }
}

void HostCall::add(StoragePair&& pair) {
  add_pair(storages_, storage_positions_, std::move(pair), [](const StoragePair& p) {
    return std::pair<const void*, const void*>(p.device, p.host.get());
  });
}

void HostCall::add(TensorPair&& pair) {
  add_pair(tensors_, tensor_positions_, std::move(pair), [](const TensorPair& p) {
    return std::pair<const void*, const void*>(p.device.unsafeGetTensorImpl(), p.host.unsafeGetTensorImpl());
  });
}

const HostCall::TensorPair* HostCall::find_device_tensor(const c10::TensorImpl* device) const {
  return find_pair(tensors_, tensor_positions_, device, [&](const TensorPair& pair) {
    return pair.device.unsafeGetTensorImpl() == device;
  });
}

const HostCall::TensorPair* HostCall::find_host_tensor(const c10::TensorImpl* host) const {
  return find_pair(tensors_, tensor_positions_, host, [&](const TensorPair& pair) {
    return pair.host.unsafeGetTensorImpl() == host;
  });
}

const HostCall::StoragePair* HostCall::find_device_storage(const c10::StorageImpl* device) const {
  return find_pair(
      storages_, storage_positions_, device, [&](const StoragePair& pair) { return pair.device == device; });
}

const HostCall::StoragePair* HostCall::find_host_storage(const c10::StorageImpl* host) const {
  return find_pair(
      storages_, storage_positions_, host, [&](const StoragePair& pair) { return pair.host.get() == host; });
}

c10::intrusive_ptr<c10::StorageImpl> HostCall::host_storage(c10::StorageImpl* device,
                                                            Access access,
                                                            const char* name) {
  if (C10_UNLIKELY(runtime::is_work_pending())) {
    memory::wait_and_check_races(device, access == Access::Write && !values_unchanged_, throw_errors_, name);
  }
  if (const StoragePair* pair = find_device_storage(device)) {
    return pair->host;
  }
  auto host = memory::take_host_storage(device);
  add(StoragePair{device, host, host->data(), device->nbytes(), /*argument=*/true});
  return host;
}

// Returns the bytes from the start of the storage to the end of the last element.
std::size_t bytes_spanned(const c10::TensorImpl* tensor) {
  if (tensor->is_contiguous()) {
    return static_cast<std::size_t>(tensor->storage_offset() + tensor->numel()) * tensor->itemsize();
  }
  return at::detail::computeStorageNbytes(tensor->sizes(),
                                          tensor->strides(),
                                          tensor->itemsize(),
                                          static_cast<std::size_t>(tensor->storage_offset()));
}

// Rejects a storage that was freed or shrunk below its tensor's size, and the storage of a fake tensor: the
// kernel would access memory out of bounds.
void HostCall::check_storage(const c10::TensorImpl* tensor, const char* name) const {
  if (tensor->numel() == 0 || short_storages_allowed_ ||
      tensor->key_set().has(c10::DispatchKey::ZeroTensor)) {
    return;
  }
  const c10::StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  TORCH_CHECK(storage->data_ptr().get() != nullptr && bytes_spanned(tensor) <= storage->nbytes(),
              "operator ",
              name,
              " got a tensor that spans ",
              bytes_spanned(tensor),
              " bytes of a storage that has ",
              storage->data_ptr().get() == nullptr ? 0 : storage->nbytes(),
              "; give its storage memory (resize_) before it is used");
}

at::Tensor HostCall::host_dense(const at::Tensor& tensor, Access access, const char* name) {
  c10::TensorImpl* source = tensor.unsafeGetTensorImpl();
  check_storage(source, name);
  return take_host_tensor(host_storage(source->unsafe_storage().unsafeGetStorageImpl(), access, name),
                          source);
}

at::Tensor HostCall::cpu_argument(const at::Tensor& tensor, Access access, const char* name) const {
  const bool cpu = tensor.unsafeGetTensorImpl()->key_set().has_backend(c10::BackendComponent::CPUBit);
  const bool scalar = cpu && tensor.dim() == 0 && access == Access::Read;
  if (!scalar && !(cpu && cpu_tensors_allowed_)) {
    throw_devices(name, tensor);
  }
  return tensor;
}

at::Tensor HostCall::host(const at::Tensor& tensor, Access access, const char* name) {
  if (!tensor.defined()) {
    return tensor;
  }
  name_ = name;
  if (!is_device_tensor(tensor)) {
    return cpu_argument(tensor, access, name);
  }
  if (C10_UNLIKELY(has_hardware_limits())) {
    check_dtype(tensor.scalar_type());  // a view may have another dtype than its base
  }
  const bool written = access == Access::Write;
  if (const TensorPair* pair = find_device_tensor(tensor.unsafeGetTensorImpl())) {
    if (written && !pair->written) {
      const_cast<TensorPair*>(pair)->written = true;
      if (runtime::is_work_pending() && tensor.has_storage() && !values_unchanged_) {
        memory::wait_and_check_races(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
                                     written,
                                     throw_errors_,
                                     name);
      }
    }
    return pair->host;
  }
  at::Tensor result = is_plain_dense(tensor.unsafeGetTensorImpl()->key_set())
                          ? host_dense(tensor, access, name)
                          : NonStridedLayouts::host(*this, tensor, access, name);
  // Some CPU kernels compute data for the backward pass (an argmax) only if an argument requires a gradient,
  // so the host alias must require one too.
  if (c10::GradMode::is_enabled() && tensor.requires_grad()) {
    result.unsafeGetTensorImpl()->set_requires_grad(true);
  }
  add(TensorPair{tensor, result, written});
  return result;
}

void HostCall::kernel_done() {
  redirect_.end();
}

c10::StorageImpl* HostCall::device_storage_for(c10::StorageImpl* host) const {
  const StoragePair* pair = find_host_storage(host);
  return pair == nullptr ? nullptr : pair->device;
}

void HostCall::adopt_storage_of(c10::TensorImpl* impl, bool has_other_owners) {
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage->device_type() == c10::DeviceType::DEVICE_KEY) {
    return;  // another result with this storage was converted before
  }
  if (c10::StorageImpl* device = device_storage_for(storage)) {
    // The result is a view of an argument or of an earlier result, so `device` is alive.
    impl->set_storage_keep_dtype(c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(device)));
    return;
  }
  if (!has_other_owners && memory::adopt_storage(storage)) {
    if (C10_UNLIKELY(runtime::is_work_pending())) {
      memory::wait_and_check_races(storage, /*written=*/true, throw_errors_, name_);
    }
    return;
  }
  // Copy the result only in two cases: a worker thread of the kernel has allocated the memory on the heap, or
  // the kernel or another result references the memory as CPU memory.
  const std::size_t bytes = storage->nbytes();
  c10::DataPtr pointer = memory::allocate_device(bytes, /*in_order=*/false);
  if (bytes > 0) {
    memory::block_of(pointer)->host_written = true;
    std::memcpy(memory::arena().to_host(pointer.get()), storage->data(), bytes);
  }
  auto copied_storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                              bytes,
                                                              std::move(pointer),
                                                              memory::device_allocator(),
                                                              /*resizable=*/true);
  add(StoragePair{copied_storage.get(),
                  c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage),
                  storage->data(),
                  bytes,
                  /*argument=*/false});
  memory::wait_and_check_races(copied_storage.get(), /*written=*/true, throw_errors_, name_);
  impl->set_storage_keep_dtype(c10::Storage(std::move(copied_storage)));
}

at::Tensor HostCall::device(at::Tensor&& result, std::size_t holders) {
  if (!result.defined()) {
    return std::move(result);
  }
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  if (const TensorPair* pair = find_host_tensor(impl)) {
    return pair->device;
  }
  if (is_device_tensor(result)) {
    return std::move(result);  // the same result was returned twice
  }
  if (!is_plain_dense(impl->key_set())) {
    return NonStridedLayouts::device(*this, std::move(result));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      impl->has_storage() && impl->key_set().has_backend(c10::BackendComponent::CPUBit),
      "a result of layout ",
      result.layout(),
      " is not supported on the " DEVICE_NAME " device; use a strided tensor, or the CPU for this operator");
  if (C10_UNLIKELY(has_hardware_limits())) {
    check_dtype(result.scalar_type());
    const StoragePair* pair = find_host_storage(impl->unsafe_storage().unsafeGetStorageImpl());
    if (pair == nullptr || !pair->argument) {
      round_to_hardware(result);
    }
  }
  const bool has_other_owners = result.use_count() > holders || impl->unsafe_storage().use_count() > 1;
  if (result.use_count() != 1) {
    auto copy = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(impl->unsafe_storage()),
        c10::DispatchKeySet(c10::DispatchKey::CPU) | (impl->key_set() & kLazyBits),
        impl->dtype());
    copy->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
    if (impl->is_wrapped_number()) {
      copy->set_wrapped_number(true);
    }
    result = at::Tensor(std::move(copy));
    impl = result.unsafeGetTensorImpl();
  }
  adopt_storage_of(impl, has_other_owners);
  change_backend(impl, runtime::kDevice);
  return std::move(result);
}

void HostCall::write_back(const TensorPair& pair) {
  c10::TensorImpl* host = pair.host.unsafeGetTensorImpl();
  c10::TensorImpl* device = pair.device.unsafeGetTensorImpl();
  if (!is_plain_dense(device->key_set())) {
    NonStridedLayouts::write_back(*this, pair.device, pair.host);
    return;
  }
  c10::StorageImpl* storage = host->unsafe_storage().unsafeGetStorageImpl();
  c10::StorageImpl* before = device->unsafe_storage().unsafeGetStorageImpl();
  if (device_storage_for(storage) != before) {  // set_() assigned another storage
    if (const StoragePair* pair = find_device_storage(before)) {
      // Keep the old storage alive: the pair refers to it until the end of the call, and the tensor, which
      // now gets another storage, may hold the last reference.
      const_cast<StoragePair*>(pair)->replaced = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(before);
    }
    c10::StorageImpl* replacement = device_storage_for(storage);
    if (replacement == nullptr) {
      adopt_storage_of(host, /*kept_by_others=*/false);
      replacement = host->unsafe_storage().unsafeGetStorageImpl();
    }
    device->set_storage_keep_dtype(
        c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(replacement)));
  }
  if (host->key_set().has(c10::DispatchKey::Conjugate) !=
      device->key_set().has(c10::DispatchKey::Conjugate)) {
    device->_set_conj(!device->is_conj());
  }
  if (host->key_set().has(c10::DispatchKey::Negative) != device->key_set().has(c10::DispatchKey::Negative)) {
    device->_set_neg(!device->is_neg());
  }
  if (device->sizes() != host->sizes() || device->strides() != host->strides() ||
      device->storage_offset() != host->storage_offset()) {
    device->set_sizes_and_strides(host->sizes(), host->strides(), host->storage_offset());
  }
}

HostCall::~HostCall() {
  if (!finished_) {
    redirect_.end();
    try {
      write_back_all(/*failed=*/true);
    } catch (...) {  // the kernel's own error is reported
    }
  }
  release_arguments();
}

// Releases the host aliases of the arguments. If the kernel has kept an argument (packed weights keep their
// bias), the host alias keeps the memory alive.
void HostCall::release_arguments() {
  for (auto& pair : tensors_) {
    return_host_tensor(std::move(pair.host));
  }
  for (auto& pair : storages_) {
    // Memory that the kernel assigned to the storage, and that no result uses, stays with the storage.
    if (pair.argument && pair.host->data() == pair.address) {
      memory::return_host_storage(pair.device, std::move(pair.host));
    }
  }
}

void HostCall::finish() {
  finished_ = true;
  if (C10_UNLIKELY(has_hardware_limits())) {
    for (const auto& pair : tensors_) {
      if (pair.written) {
        round_to_hardware(pair.host);
      }
    }
  }
  write_back_all(/*failed=*/false);
}

void HostCall::write_back_all(bool failed) {
  for (auto& pair : storages_) {
    if (C10_UNLIKELY(pair.argument &&
                     (pair.host->data() != pair.address || pair.host->nbytes() != pair.bytes))) {
      memory::adopt_resized_memory(pair.device, pair.host.get());
    }
  }
  for (const auto& pair : tensors_) {
    if (!pair.written) {
      continue;
    }
    // torch's resize sets the sizes before it allocates. If the allocation failed, the tensor keeps its old
    // sizes.
    const bool is_partial = failed && is_plain_dense(pair.device.unsafeGetTensorImpl()->key_set()) &&
                            bytes_spanned(pair.host.unsafeGetTensorImpl()) > pair.device.storage().nbytes();
    if (!is_partial) {
      write_back(pair);
    }
  }
}

at::Tensor host_view(const at::Tensor& tensor) {
  HostCall call(/*redirect=*/false, /*throw_errors=*/true);
  return call.host(tensor, Access::Read, "host_view");
}

}  // namespace hpu_reference::kernels
