#include "runtime/device.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "device_key.h"
#include "runtime/fork.h"
#include "runtime/log.h"

namespace hpu_reference::runtime {

std::atomic<bool> g_ready{false};

namespace {

constexpr int kModules = 8;  // modules of the simulated machine

std::mutex g_mutex;
std::atomic<bool> g_acquired{false};
AcquireFunction g_acquire_memory = nullptr;  // set while the library is loaded

// Returns the modules of HABANA_VISIBLE_MODULES in their order; none if the variable is invalid.
std::vector<long> visible_modules() {
  const char* text = std::getenv("HABANA_VISIBLE_MODULES");
  std::vector<long> modules;
  if (text == nullptr || *text == '\0' || std::string(text) == "all") {
    modules.resize(kModules);
    std::iota(modules.begin(), modules.end(), 0);
    return modules;
  }
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
      return {};
    }
    if (std::find(modules.begin(), modules.end(), module) == modules.end()) {
      modules.push_back(module);
    }
    if (*end == '\0') {
      return modules;
    }
    cursor = end + 1;
  }
}

// Returns the modules that were visible at the first call.
const std::vector<long>& modules_of_process() {
  static const std::vector<long> modules = visible_modules();
  return modules;
}

// Returns whether the index denotes the device of this process. Programs pass HLS_MODULE_ID, LOCAL_RANK, or
// the position of HLS_MODULE_ID in HABANA_VISIBLE_MODULES. HLS_MODULE_ID and LOCAL_RANK are read at each
// call, because programs change them.
bool is_own_device_index(c10::DeviceIndex index) {
  const auto is_value = [](const char* variable, long number) {
    const char* text = std::getenv(variable);
    return text != nullptr && *text != '\0' && std::atol(text) == number;
  };
  return is_value("HLS_MODULE_ID", index) || is_value("LOCAL_RANK", index) ||
         is_value("HLS_MODULE_ID", modules_of_process()[static_cast<std::size_t>(index)]);
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
  TORCH_CHECK(device_count() > 0,
              "no " DEVICE_NAME
              " device is visible to this process; set HABANA_VISIBLE_MODULES to a list of modules 0 to 7");
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
  return static_cast<c10::DeviceIndex>(modules_of_process().size());
}

void check_exists(c10::DeviceIndex index) {
  TORCH_CHECK(index < device_count(),
              DEVICE_NAME ":",
              static_cast<int>(index),
              " is not a device of this machine, which has ",
              static_cast<int>(device_count()),
              "; use " DEVICE_NAME ":0");
}

c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  if (index <= 0) {
    return 0;
  }
  check_exists(index);
  TORCH_CHECK(is_own_device_index(index),
              DEVICE_NAME ":",
              static_cast<int>(index),
              " is not the device of this process. A process has one device, " DEVICE_NAME
              ":0. To select another module, call "
              "torch." DEVICE_NAME ".set_device(",
              static_cast<int>(index),
              "), or set HLS_MODULE_ID to the id of the module, before the process first uses the device");
  return 0;
}

}  // namespace hpu_reference::runtime
