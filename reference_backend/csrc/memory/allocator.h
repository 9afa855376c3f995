// Memory of the device as torch sees it: the allocator of its tensors, over the pool.
#pragma once

#include <c10/core/StorageImpl.h>

#include "memory/block_pool.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "torch_release.h"

namespace hpu_reference::memory {

// The pool; null until the runtime acquires the device. Never destroyed: tensors may outlive static
// destruction.
extern BlockPool* g_pool;

// True between the first use of the device and the end of the process, but in a forked child.
bool is_ready();

// The pool and the arena of the device, which must be acquired.
inline BlockPool& pool() {
  return *g_pool;
}
inline const Arena& arena() {
  return g_pool->arena();
}

extern DeviceAllocator* const g_device_allocator;
inline DeviceAllocator* device_allocator() {
  return g_device_allocator;
}

// Throws torch.OutOfMemoryError where the pool has no such block, also after all queued work has run.
// `in_order`: see BlockPool::allocate.
c10::DataPtr allocate_device(std::size_t size, bool in_order = true);

// A block of the pool for the current stream; see BlockPool::allocate. Throws as allocate_device.
Block* allocate_after_waiting(std::size_t size, bool scratch, bool in_order);
inline Block* allocate_block(std::size_t size, bool scratch, bool in_order) {
  Block* block = g_pool->allocate(size, runtime::current_stream_id(), scratch, in_order);
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

// Work that runs later uses the storage's memory: host code may not write it ahead of that.
void touch(const c10::StorageImpl* device);

}  // namespace hpu_reference::memory
