// Memory of the device as torch sees it: the allocator of its tensors, over the pool.
#pragma once

#include <c10/core/StorageImpl.h>

#include "memory/block_pool.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "torch_release.h"

namespace hpu_reference::memory {

// The pool, null until the runtime acquires the device. Never destroyed: tensors may outlive static
// destruction.
extern std::atomic<BlockPool*> g_pool;

// True once the device has been acquired, by whatever thread.
inline bool has_pool() {
  return g_pool.load(std::memory_order_acquire) != nullptr;
}

// True between the first use of the device and the end of the process, except in a forked child.
bool is_ready();

// The pool; the device must be acquired.
inline BlockPool& pool() {
  return *g_pool.load(std::memory_order_acquire);
}
// The arena; the device must be acquired.
inline const Arena& arena() {
  return pool().arena();
}

// Storage of device_allocator().
extern DeviceAllocator* const g_device_allocator;
// torch's allocator of device memory.
inline DeviceAllocator* device_allocator() {
  return g_device_allocator;
}

// Allocates device memory for a tensor. Throws torch.OutOfMemoryError if the pool has no such block even
// after all queued work has run. `in_order`: see BlockPool::allocate.
c10::DataPtr allocate_device(std::size_t size, bool in_order = true);

// Waits for all queued work and tries again; throws as allocate_device.
Block* allocate_after_waiting(std::size_t size, bool scratch, bool in_order);
// Takes a block from the pool for the current stream; see BlockPool::allocate. Throws as allocate_device.
inline Block* allocate_block(std::size_t size, bool scratch, bool in_order) {
  Block* block = pool().allocate(size, runtime::current_stream_id(), scratch, in_order);
  return C10_LIKELY(block != nullptr) ? block : allocate_after_waiting(size, scratch, in_order);
}

// Gives the block back to the pool.
void free_block(void* block);

// The pointer that frees the block when it dies.
inline c10::DataPtr device_pointer(Block* block) {
  return {block->device, block, &free_block, runtime::kDevice};
}

// The block behind a device DataPtr, or nullptr if the pointer is null or not ours.
inline Block* block_of(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &free_block ? static_cast<Block*>(pointer.get_context()) : nullptr;
}

// Marks the storage's memory as used by work that runs later: host code may not write it ahead of that work.
void touch(const c10::StorageImpl* device);

}  // namespace hpu_reference::memory
