// The pool as torch sees it: an allocator of device memory, and the CPU allocator's detour for running
// kernels.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>

#include "memory/block_pool.h"

namespace hpu_reference::memory {

// True between the first use of the device and the end of the process, but in a forked child.
bool is_ready();

// Acquires the device's memory; called once by runtime::acquire(). The limit is in bytes.
void acquire(std::size_t limit);

BlockPool& pool();
const Arena& arena();

c10::DeviceAllocator* device_allocator();

// Throws torch.OutOfMemoryError where the pool has no such block.
c10::DataPtr allocate_device(std::size_t size);

// The block behind a device DataPtr, or nullptr if the pointer is null or not ours.
Block* block_of(const c10::DataPtr& pointer);

// Runs once at load: puts the detour in front of torch's CPU allocator.
void install_host_detour();

// While one lives, CPU allocations of this thread are scratch blocks of the arena, so that what a CPU kernel
// makes can become a device tensor without a copy. Worker threads of the kernel allocate from the heap.
class HostDetour {
 public:
  explicit HostDetour(bool enabled = true);
  ~HostDetour();
  void end() {
    set(before_);
  }
  HostDetour(const HostDetour&) = delete;
  HostDetour& operator=(const HostDetour&) = delete;

 private:
  static void set(bool enabled);
  bool before_;
};

// Turns a CPU storage whose memory is a scratch block (or empty) into a device storage, in place.
// Returns false where the memory is not the arena's; the storage is then unchanged.
bool adopt_storage(c10::StorageImpl* storage);

// The CPU storage over the host view of a device storage; the same one for all callers as long as the block
// lives. A storage without memory gets a fresh empty one.
c10::intrusive_ptr<c10::StorageImpl> host_storage_of(c10::StorageImpl* device);

// Where others than the caller and the block's cache hold this host storage, it owns the device storage from
// now on, and the block makes a new one when it is needed.
void keep_alive_if_kept(c10::StorageImpl* device, const c10::intrusive_ptr<c10::StorageImpl>& host);

// A kernel has resized the host storage of `device`: the new memory becomes the device storage's.
void take_resized(c10::StorageImpl* device, c10::StorageImpl* host);

// Changes the size of a device storage, keeping the common prefix of its bytes.
void resize_storage(c10::StorageImpl* storage, std::size_t bytes);

}  // namespace hpu_reference::memory
