#include "memory/host_storage.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "device_key.h"
#include "memory/access_set.h"
#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "memory/history.h"
#include "runtime/device.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "torch_release.h"

namespace hpu_reference::memory {

bool adopt_storage(c10::StorageImpl* storage) {
  c10::DataPtr& pointer = storage->_mutable_data_ptr_no_checks();
  if (pointer.get() == nullptr) {
    storage->set_data_ptr_noswap(c10::DataPtr(nullptr, runtime::kDevice));
  } else if (is_scratch(pointer)) {
    Block* block = pool().block_at(pointer.get());
    pool().turn_scratch_into_tensor_memory(block);
    record_allocation(block);
    pointer.release_context();
    storage->set_data_ptr_noswap(device_pointer(block));
  } else {
    return false;
  }
  storage->set_allocator(device_allocator());
  return true;
}

c10::intrusive_ptr<c10::StorageImpl> take_host_storage(c10::StorageImpl* device) {
  const c10::DataPtr& pointer = device->data_ptr();
  const std::size_t bytes = device->nbytes();
  Block* block = block_of(pointer);
  const auto make = [&](void* address) {
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                 bytes,
                                                 c10::DataPtr(address, c10::Device(c10::DeviceType::CPU)),
                                                 host_allocator(),
                                                 device->resizable());
  };
  if (block == nullptr) {
    void* address = pointer.get();
    if (address != nullptr) {
      TORCH_CHECK(arena().contains_device(address),
                  "storage at address ",
                  address,
                  " is not memory of the " DEVICE_NAME " device; make the tensor with device='" DEVICE_NAME
                  "'");
      address = arena().to_host(address);
    }
    return make(address);
  }
  void* address = arena().to_host(pointer.get());
  // Take the cached storage out of the block. Two calls may read one tensor at once, and each needs a storage
  // that no other call changes or references.
  auto cached_storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim(
      block->host_storage.exchange(nullptr, std::memory_order_acq_rel));
  if (cached_storage == nullptr || C10_UNLIKELY(cached_storage->data() != address)) {
    return make(address);
  }
  if (C10_UNLIKELY(cached_storage->nbytes() != bytes)) {
    set_bytes(cached_storage.get(), bytes);  // the block was reused, or its storage was shrunk in place
  }
  if (C10_UNLIKELY(cached_storage->resizable() != device->resizable())) {
    cached_storage->set_resizable(device->resizable());
  }
  return cached_storage;
}

void return_host_storage(c10::StorageImpl* device, c10::intrusive_ptr<c10::StorageImpl> host) {
  if (host->data() == nullptr) {
    return;
  }
  if (C10_UNLIKELY(host.use_count() > 1)) {
    using Owner = c10::intrusive_ptr<c10::StorageImpl>;
    auto* owner = new Owner(Owner::reclaim_copy(device));
    host->set_data_ptr_noswap(c10::DataPtr(
        const_cast<void*>(host->data()),
        owner,
        [](void* context) { delete static_cast<Owner*>(context); },
        c10::Device(c10::DeviceType::CPU)));
    return;
  }
  Block* block = block_of(device->data_ptr());
  c10::StorageImpl* empty = nullptr;
  if (block != nullptr && block->host_storage.compare_exchange_strong(
                              empty, host.get(), std::memory_order_acq_rel, std::memory_order_relaxed)) {
    host.release();
  }
}

void adopt_resized_memory(c10::StorageImpl* device, c10::StorageImpl* host) {
  const std::size_t bytes = host->nbytes();
  c10::DataPtr new_memory = host->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::DeviceType::CPU)));
  if (Block* old = block_of(device->data_ptr())) {
    // The host storage cached by the old block must not be used for the new memory.
    if (auto* cached = old->host_storage.exchange(nullptr)) {
      c10::raw::intrusive_ptr::decref(cached);
    }
  }
  c10::DataPtr pointer(nullptr, runtime::kDevice);
  if (is_scratch(new_memory)) {
    Block* block = pool().block_at(new_memory.get());
    new_memory.release_context();
    pool().turn_scratch_into_tensor_memory(block);
    record_allocation(block);
    pointer = device_pointer(block);
  } else if (new_memory.get() != nullptr && bytes > 0) {
    pointer = allocate_device(bytes, /*in_order=*/false);  // another thread allocated new_memory on the heap
    block_of(pointer)->host_written = true;
    std::memcpy(arena().to_host(pointer.get()), new_memory.get(), bytes);
  }
  device->set_data_ptr_noswap(std::move(pointer));
  device->set_nbytes(bytes);
}

void resize_storage(c10::StorageImpl* storage, std::size_t bytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  const std::size_t common = std::min(bytes, storage->nbytes());
  c10::DataPtr new_memory = allocate_device(bytes, /*in_order=*/common == 0);
  if (common > 0) {
    block_of(new_memory)->host_written = true;
    if (runtime::is_work_pending()) {
      runtime::flush_recorded();
      runtime::drain(runtime::current_stream_id(), /*throw_errors=*/false);
      wait_for_users(storage, /*written=*/false, /*throw_errors=*/false);
    }
    std::memcpy(arena().to_host(new_memory.get()), arena().to_host(storage->data()), common);
  }
  storage->set_data_ptr_noswap(std::move(new_memory));
  storage->set_nbytes(bytes);
}

}  // namespace hpu_reference::memory
