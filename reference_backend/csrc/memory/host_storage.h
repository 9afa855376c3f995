// Storages of the device and the CPU storages over their host views.
#pragma once

#include <c10/core/StorageImpl.h>

namespace hpu_reference::memory {

// Turns a CPU storage whose memory is a scratch block (or empty) into a device storage, in place. Returns
// false, and leaves the storage as it is, if the memory is not the arena's.
bool adopt_storage(c10::StorageImpl* storage);

// Takes the CPU storage over the host view of a device storage, for one call: the one that its block keeps,
// or a fresh one if another call has that. A storage without memory gets a fresh empty one.
c10::intrusive_ptr<c10::StorageImpl> take_host_storage(c10::StorageImpl* device);

// Gives it back after the call. If somebody else has kept a reference to it, it owns the device storage from
// now on, and the block makes a new one when it needs it.
void return_host_storage(c10::StorageImpl* device, c10::intrusive_ptr<c10::StorageImpl> host);

// Gives the device storage the memory of its host storage, which a kernel has resized.
void take_resized(c10::StorageImpl* device, c10::StorageImpl* host);

// Changes the size of a device storage, keeping the common prefix of its bytes.
void resize_storage(c10::StorageImpl* storage, std::size_t bytes);

}  // namespace hpu_reference::memory
