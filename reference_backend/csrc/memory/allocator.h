// Device memory for torch: the allocator of device tensors, on top of the block pool.
#pragma once

#include <c10/core/StorageImpl.h>

#include "memory/block_pool.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "torch_release.h"

namespace hpu_reference::memory {

// The pool; null until the runtime acquires the device. Never destroyed: tensors may outlive static
// destruction.
extern std::atomic<BlockPool*> g_pool;

// Returns true once any thread has acquired the device.
inline bool has_pool() {
  return g_pool.load(std::memory_order_acquire) != nullptr;
}

// Returns true between the first use of the device and the end of the process. Returns false in a forked
// child.
bool is_ready();

// Returns the pool. The device must be acquired.
inline BlockPool& pool() {
  return *g_pool.load(std::memory_order_acquire);
}
// Returns the arena. The device must be acquired.
inline const Arena& arena() {
  return pool().arena();
}

extern DeviceAllocator* const g_device_allocator;
// Returns torch's allocator of device memory.
inline DeviceAllocator* device_allocator() {
  return g_device_allocator;
}

// Allocates device memory for a tensor. Throws torch.OutOfMemoryError if the pool has no sufficient block
// even after all queued work has run. `in_order`: see BlockPool::allocate.
c10::DataPtr allocate_device(std::size_t size, bool in_order = true);

// Waits for all queued work and allocates again. Throws as allocate_device() does.
Block* allocate_after_waiting(std::size_t size, bool scratch, bool in_order);
// Allocates a block from the pool for the current stream; see BlockPool::allocate. Throws as
// allocate_device() does.
inline Block* allocate_block(std::size_t size, bool scratch, bool in_order) {
  Block* block = pool().allocate(size, runtime::current_stream_id(), scratch, in_order);
  return C10_LIKELY(block != nullptr) ? block : allocate_after_waiting(size, scratch, in_order);
}

// Returns the block to the pool.
void free_block(void* block);

// Returns a DataPtr that frees the block when it is destroyed.
inline c10::DataPtr device_pointer(Block* block) {
  return {block->device, block, &free_block, runtime::kDevice};
}

// Returns the block of a device DataPtr. Returns nullptr if the pointer is null or does not belong to the
// device.
inline Block* block_of(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &free_block ? static_cast<Block*>(pointer.get_context()) : nullptr;
}

// Marks the storage's memory as used by work that runs later. Host code may then not write the memory ahead
// of that work.
void mark_used_later(const c10::StorageImpl* device);

}  // namespace hpu_reference::memory
