// Collectives during a capture.
#pragma once

#include <functional>

namespace hpu_reference::distributed {

// Handler of a collective that was called while a graph is captured; `issue` issues it and has the current
// stream wait for it. The handler ends the capture, calls `issue`, begins another capture, and calls `issue`
// again between the two at each replay.
using BetweenGraphs = std::function<void(std::function<void()> issue)>;

// Sets the handler; an empty one refuses a collective in a capture.
void set_between_graphs(BetweenGraphs between);

}  // namespace hpu_reference::distributed
