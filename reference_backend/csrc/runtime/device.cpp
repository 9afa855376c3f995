#include "runtime/device.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "runtime/fork.h"
#include "runtime/log.h"

namespace hpu_reference::runtime {

std::atomic<bool> g_ready{false};

namespace {

constexpr int kModules = 8;  // modules of the simulated machine

std::mutex g_mutex;
std::atomic<bool> g_acquired{false};
AcquireFunction g_acquire_memory = nullptr;  // set while the library is loaded

int count_visible() {
  const char* text = std::getenv("HABANA_VISIBLE_MODULES");
  if (text == nullptr || *text == '\0' || std::string(text) == "all") {
    return kModules;
  }
  std::set<long> modules;
  for (const char* cursor = text;;) {
    char* end = nullptr;
    const long module = std::strtol(cursor, &end, 10);
    while (end != cursor && *end == ' ') {
      end++;
    }
    if (end == cursor || module < 0 || module >= kModules || (*end != ',' && *end != '\0')) {
      TORCH_WARN("HABANA_VISIBLE_MODULES='",
                 text,
                 "' is not a comma-separated list of modules 0 to 7; no module is visible");
      return 0;
    }
    modules.insert(module);
    if (*end == '\0') {
      return static_cast<int>(modules.size());
    }
    cursor = end + 1;
  }
}

}  // namespace

bool register_memory(AcquireFunction acquire) {
  g_acquire_memory = acquire;
  return true;
}

void acquire_slow() {
  if (is_forked_child()) {
    throw_used_in_forked_child();
  }
  std::unique_lock<std::mutex> lock(g_mutex);
  if (g_acquired) {
    return;
  }
  TORCH_CHECK(
      device_count() > 0,
      "no hpu device is visible to this process; set HABANA_VISIBLE_MODULES to a list of modules 0 to 7");
  g_acquire_memory();
  register_fork_handler();
  g_acquired = true;
  g_ready = true;
  lock.unlock();
  log(LogModule::Device, LogLevel::Info, "the device is acquired");
}

bool is_initialized() {
  return g_acquired && !is_forked_child();
}

c10::DeviceIndex device_count() noexcept {
  static const int count = count_visible();
  return static_cast<c10::DeviceIndex>(count);
}

c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  if (index > 0) {
    TORCH_CHECK(index < device_count(),
                "hpu:",
                static_cast<int>(index),
                " is not a device of this machine, which has ",
                static_cast<int>(device_count()),
                "; use hpu:0");
    // The launcher sets this variable to the module of this process. Some clients pass it as the device
    // index.
    static const char* const module = std::getenv("HLS_MODULE_ID");
    if (module != nullptr && std::atoi(module) == index) {
      return 0;
    }
    TORCH_WARN_ONCE("hpu:",
                    static_cast<int>(index),
                    " means hpu:0, as a process has one device; choose the module with HLS_MODULE_ID or "
                    "HABANA_VISIBLE_MODULES");
  }
  return 0;
}

}  // namespace hpu_reference::runtime
