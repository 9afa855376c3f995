// Pinned host memory: ordinary aligned memory whose ranges are known.
#pragma once

#include <c10/core/Allocator.h>

namespace hpu_reference::memory {

// The allocator of pinned memory.
c10::Allocator* pinned_allocator();

// True if the address lies in a pinned range.
bool is_pinned(const void* data);

}  // namespace hpu_reference::memory
