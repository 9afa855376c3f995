// The device's part of torch's profiler.
#pragma once

namespace hpu_reference::device {

// Registers it with Kineto, once; a torch that was built without Kineto has no device rows.
void register_profiler();

}  // namespace hpu_reference::device
