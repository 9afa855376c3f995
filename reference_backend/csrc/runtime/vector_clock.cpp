#include "runtime/vector_clock.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace hpu_reference::runtime {

namespace {

std::atomic<bool> g_on{false};

// Never destroyed: work may be issued during static destruction.
struct Clocks {
  std::mutex mutex;
  std::map<int, OrderClock> queues;
  OrderClock host;
};

Clocks& clocks() {
  static auto* value = new Clocks();
  return *value;
}

void merge(OrderClock& into, const OrderClock& from) {
  for (const auto& [queue, count] : from) {
    std::uint64_t& known = into[queue];
    known = std::max(known, count);
  }
}

}  // namespace

void start_order_clocks() {
  g_on = true;
}

bool has_order_clocks() {
  return g_on.load(std::memory_order_relaxed);
}

OrderClock tick(int queue) {
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  OrderClock& clock = self.queues[queue];
  merge(clock, self.host);
  clock[queue]++;
  return clock;
}

OrderClock clock_of(int queue) {
  if (!has_order_clocks()) {
    return {};
  }
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  OrderClock& clock = self.queues[queue];
  merge(clock, self.host);
  return clock;
}

OrderClock clock_of_host() {
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  return self.host;
}

void order_behind(int queue, const OrderClock& clock) {
  if (!has_order_clocks()) {
    return;
  }
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  merge(self.queues[queue], clock);
}

void order_host_behind(const OrderClock& clock) {
  if (!has_order_clocks()) {
    return;
  }
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  merge(self.host, clock);
}

}  // namespace hpu_reference::runtime
