#include "runtime/telemetry.h"

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

void set_listener(Listener given) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_has_listener = static_cast<bool>(given);
  listener() = given ? std::make_shared<Listener>(std::move(given)) : nullptr;
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
