// The device's plug-in for torch's profiler.
#pragma once

namespace hpu_reference::device {

// Registers the plug-in with Kineto, once. If torch was built without Kineto, traces have no device rows.
void register_profiler();

}  // namespace hpu_reference::device
