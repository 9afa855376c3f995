// Pinned host memory: ordinary aligned memory whose ranges are registered.
#pragma once

#include <c10/core/Allocator.h>

namespace hpu_reference::memory {

// Returns the allocator of pinned memory.
c10::Allocator* pinned_allocator();

// Returns true if the address lies in a pinned range.
bool is_pinned(const void* data);

}  // namespace hpu_reference::memory
