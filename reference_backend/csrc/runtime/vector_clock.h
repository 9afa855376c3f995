// What the waits of a program order: which work on other streams has to have run before work on a stream
// starts, and before the host goes on. Kept only to find missing waits (HPU_REFERENCE_STREAM_ORDER=events).
#pragma once

#include <cstdint>
#include <map>

namespace hpu_reference::runtime {

// For each queue the number of its pieces of work that come before.
using OrderClock = std::map<int, std::uint64_t>;

// Switches the clocks on; they cannot be switched off again.
void start_order_clocks();
// True if the clocks are on.
bool has_order_clocks();

// Counts a piece of work on the queue and returns what comes before it, the work itself included.
OrderClock tick(int queue);
// What comes before the end of the queue.
OrderClock clock_of(int queue);
// What comes before all work that the host issues from now on.
OrderClock clock_of_host();
// Orders the queue's later work behind that.
void order_behind(int queue, const OrderClock& clock);
// Orders all work that the host issues from now on behind that. Threads share one host: an order that the
// program has between its threads is believed.
void order_host_behind(const OrderClock& clock);

}  // namespace hpu_reference::runtime
