// What a capture does about collectives.
#pragma once

#include <functional>

namespace hpu_reference::distributed {

// Gets a collective that was called while a graph is captured, as a function that issues it and has the
// current stream wait for it. It ends the capture, calls the function, begins another capture, and calls the
// function again between the two at each replay.
using BetweenGraphs = std::function<void(std::function<void()> issue)>;

// Empty: a collective in a capture is refused.
void set_between_graphs(BetweenGraphs between);

}  // namespace hpu_reference::distributed
