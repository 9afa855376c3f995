// Notices: rare events that a listener may follow, such as a compiled graph, a cache hit or miss, a fallback,
// a defragmentation.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hpu_reference::runtime {

using NoticeParameters = std::vector<std::pair<std::string, std::string>>;
using Listener = std::function<void(const char* name, const NoticeParameters&)>;

// Storage of has_listener().
extern std::atomic<bool> g_has_listener;

// Replaces the listener; an empty function removes it. It is called on the thread that causes the event.
void set_listener(Listener listener);
// Passes an event to the listener, if there is one.
void publish(const char* name, const NoticeParameters& parameters);

// True while there is a listener.
inline bool has_listener() {
  return g_has_listener.load(std::memory_order_relaxed);
}

}  // namespace hpu_reference::runtime
