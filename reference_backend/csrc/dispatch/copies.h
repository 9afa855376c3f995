// Copies between the host and the device.
#pragma once

#include <cstddef>

namespace hpu_reference::dispatch {

// Enables or disables the queue for copies between pinned memory and the device, per direction. Sets the
// minimum size in bytes of a copy to the device that uses the queue of an idle stream
// (PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD, PT_HPU_ENABLE_D2H_ASYNC_THREAD, PT_HPU_H2D_COPY_MIN_TENSOR_SIZE). At
// start, both directions are enabled and the minimum size is 1 MiB.
void set_copy_queue(bool to_device, bool to_host, std::size_t smallest);

}  // namespace hpu_reference::dispatch
