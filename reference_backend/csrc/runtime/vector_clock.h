// Vector clocks: the order that the waits of a program establish. They determine which work on other streams
// must have run before work on a stream starts, and before the host continues. They are maintained only to
// find missing waits (HPU_REFERENCE_STREAM_ORDER=events).
#pragma once

#include <cstdint>
#include <map>

namespace hpu_reference::runtime {

// For each queue, the number of its items that happen before the point to which the clock belongs.
using VectorClock = std::map<int, std::uint64_t>;

// Enables the clocks. They cannot be disabled again.
void enable_vector_clocks();
bool are_vector_clocks_enabled();

// Counts an item on the queue and returns its clock: all items that happen before it, and the item itself.
VectorClock advance_queue_clock(int queue);
// Returns the clock of the current end of the queue: the items that happen before this point.
VectorClock clock_of(int queue);
// Returns the items that happen before all work that the host issues from now on.
VectorClock clock_of_host();
// Orders the queue's later work after the clock.
void order_queue_after(int queue, const VectorClock& clock);
// Orders all work that the host issues from now on after the clock. All threads share one host clock: the
// program is trusted to order its threads.
void order_host_after(const VectorClock& clock);

}  // namespace hpu_reference::runtime
