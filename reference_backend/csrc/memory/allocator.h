// The pool as torch sees it: an allocator of device memory, and the CPU allocator's detour for running
// kernels.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <vector>

#include "memory/block_pool.h"
#include "torch_release.h"

namespace hpu_reference::memory {

// True between the first use of the device and the end of the process, but in a forked child.
bool is_ready();

// Acquires the device's memory; called once by runtime::acquire(). The limit is in bytes.
void acquire(std::size_t limit);

BlockPool& pool();
const Arena& arena();

DeviceAllocator* device_allocator();

// Throws torch.OutOfMemoryError where the pool has no such block, also after all queued work has run.
// `in_order`: see BlockPool::allocate.
c10::DataPtr allocate_device(std::size_t size, bool in_order = true);

// The block behind a device DataPtr, or nullptr if the pointer is null or not ours.
Block* block_of(const c10::DataPtr& pointer);

// Work that runs later uses the storage's memory: host code may not write it ahead of that.
void touch(const c10::StorageImpl* device);

// Runs once at load: puts the detour in front of torch's CPU allocator.
void install_host_detour();

// While one lives, CPU allocations of this thread are scratch blocks of the arena, so that what a CPU kernel
// makes can become a device tensor without a copy. Worker threads of the kernel allocate from the heap.
class HostDetour {
 public:
  explicit HostDetour(bool enabled = true);
  ~HostDetour();
  void end();
  HostDetour(const HostDetour&) = delete;
  HostDetour& operator=(const HostDetour&) = delete;

 private:
  int before_;
};

// While one lives on a thread, the detours inside it write down what they allocate, in order.
class AllocationLog {
 public:
  AllocationLog();
  ~AllocationLog();
  AllocationLog(const AllocationLog&) = delete;
  AllocationLog& operator=(const AllocationLog&) = delete;

  // Position of the allocation that starts at this host address, or -1.
  int position(const void* address) const;
  void add(const void* address) {
    addresses_.push_back(address);
  }

 private:
  std::vector<const void*> addresses_;
  AllocationLog* before_;
};

// Memory for one of the allocations of a kernel: its result is to be where `storage` points.
struct Donation {
  int position;  // among the kernel's allocations
  std::size_t bytes;
  c10::StorageImpl* storage;
};

// While one lives, the CPU allocations of this thread at the given positions get the donated memory; the
// others come from the heap. Must not be given more than one kernel to run.
class DonationScope {
 public:
  explicit DonationScope(c10::ArrayRef<Donation> donations);
  ~DonationScope();
  DonationScope(const DonationScope&) = delete;
  DonationScope& operator=(const DonationScope&) = delete;

 private:
  friend class DetourAllocator;
  c10::ArrayRef<Donation> donations_;
  int position_ = 0;
  int before_;
  DonationScope* outer_;
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
