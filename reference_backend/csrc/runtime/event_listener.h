// Telemetry events: rare events that a listener may follow, such as a compiled graph, a cache hit or miss, a
// fallback or a defragmentation.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hpu_reference::runtime {

using TelemetryParameters = std::vector<std::pair<std::string, std::string>>;
using Listener = std::function<void(const char* name, const TelemetryParameters&)>;

extern std::atomic<bool> g_has_listener;

// Replaces the listener; an empty function removes it. The listener is called on the thread that causes the
// event.
void set_listener(Listener listener);
// Passes an event to the listener, if one is set.
void emit_event(const char* name, const TelemetryParameters& parameters);

inline bool has_listener() {
  return g_has_listener.load(std::memory_order_relaxed);
}

}  // namespace hpu_reference::runtime
