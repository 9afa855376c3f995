#include "runtime/event_listener.h"

#include <memory>
#include <mutex>

#include "runtime/fork.h"

namespace hpu_reference::runtime {

std::atomic<bool> g_has_listener{false};

namespace {

std::mutex g_mutex;

std::shared_ptr<Listener>& listener() {
  static auto* value = new std::shared_ptr<Listener>();
  return *value;
}

}  // namespace

void set_listener(Listener new_listener) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_has_listener = static_cast<bool>(new_listener);
  listener() = new_listener ? std::make_shared<Listener>(std::move(new_listener)) : nullptr;
}

void emit_event(const char* name, const TelemetryParameters& parameters) {
  if (!has_listener() || is_forked_child()) {
    return;
  }
  std::shared_ptr<Listener> target;
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    target = listener();
  }
  if (target != nullptr) {
    (*target)(name, parameters);
  }
}

}  // namespace hpu_reference::runtime
