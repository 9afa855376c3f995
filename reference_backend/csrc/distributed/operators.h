// Collectives during a capture.
#pragma once

#include <functional>

namespace hpu_reference::distributed {

// The handler of a collective that is called during a capture. `issue` issues the collective and makes the
// current stream wait for it. The handler ends the capture, calls `issue` and begins another capture. Each
// replay also calls `issue` between the two graphs.
using CaptureCollectiveHandler = std::function<void(std::function<void()> issue)>;

// Sets the handler of collectives that are called during a capture. If the handler is empty, such a
// collective throws an error.
void set_capture_collective_handler(CaptureCollectiveHandler handler);

}  // namespace hpu_reference::distributed
