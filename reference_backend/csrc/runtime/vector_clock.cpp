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
  std::map<int, VectorClock> queues;
  VectorClock host;
};

Clocks& clocks() {
  static auto* value = new Clocks();
  return *value;
}

void merge(VectorClock& into, const VectorClock& from) {
  for (const auto& [queue, count] : from) {
    std::uint64_t& merged_count = into[queue];
    merged_count = std::max(merged_count, count);
  }
}

}  // namespace

void enable_vector_clocks() {
  g_on = true;
}

bool are_vector_clocks_enabled() {
  return g_on.load(std::memory_order_relaxed);
}

VectorClock advance_queue_clock(int queue) {
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  VectorClock& clock = self.queues[queue];
  merge(clock, self.host);
  clock[queue]++;
  return clock;
}

VectorClock clock_of(int queue) {
  if (!are_vector_clocks_enabled()) {
    return {};
  }
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  VectorClock& clock = self.queues[queue];
  merge(clock, self.host);
  return clock;
}

VectorClock clock_of_host() {
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  return self.host;
}

void order_queue_after(int queue, const VectorClock& clock) {
  if (!are_vector_clocks_enabled()) {
    return;
  }
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  merge(self.queues[queue], clock);
}

void order_host_after(const VectorClock& clock) {
  if (!are_vector_clocks_enabled()) {
    return;
  }
  Clocks& self = clocks();
  const std::lock_guard<std::mutex> lock(self.mutex);
  merge(self.host, clock);
}

}  // namespace hpu_reference::runtime
