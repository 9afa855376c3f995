// Storages of the device and the CPU storages over their host views.
#pragma once

#include <c10/core/StorageImpl.h>

namespace hpu_reference::memory {

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
