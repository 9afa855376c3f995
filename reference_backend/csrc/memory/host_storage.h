// Device storages and the CPU storages over their host mapping.
#pragma once

#include <c10/core/StorageImpl.h>

namespace hpu_reference::memory {

// Turns a CPU storage whose memory is a scratch block (or empty) into a device storage, in place. Returns
// false without changes if the memory does not belong to the arena.
bool adopt_storage(c10::StorageImpl* storage);

// Returns the CPU storage over the host mapping of a device storage, for one call. This is the storage cached
// by the block, or a new storage if another call uses the cached one. A storage without memory gets a new
// empty storage.
c10::intrusive_ptr<c10::StorageImpl> take_host_storage(c10::StorageImpl* device);

// Returns the CPU storage to the block after the call. If other code still references the CPU storage, the
// CPU storage owns a reference to the device storage from now on, and the next call creates a new CPU
// storage.
void return_host_storage(c10::StorageImpl* device, c10::intrusive_ptr<c10::StorageImpl> host);

// Moves the memory of a host storage that a kernel has resized to the device storage.
void adopt_resized_memory(c10::StorageImpl* device, c10::StorageImpl* host);

// Changes the size of a device storage and preserves the common prefix of its bytes.
void resize_storage(c10::StorageImpl* storage, std::size_t bytes);

}  // namespace hpu_reference::memory
