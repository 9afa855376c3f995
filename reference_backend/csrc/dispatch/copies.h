// Copies between the host and the device.
#pragma once

#include <cstddef>

namespace hpu_reference::dispatch {

// Turns the queue for copies from pinned memory to the device on or off, and sets the bytes from which on
// such a copy goes through the queue of an idle stream (PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD,
// PT_HPU_H2D_COPY_MIN_TENSOR_SIZE). On at start, from 1 MiB.
void set_copy_queue(bool on, std::size_t smallest);

}  // namespace hpu_reference::dispatch
