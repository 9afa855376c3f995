#include "runtime/device.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "memory/allocator.h"
#include "runtime/fork.h"

namespace hpu_reference::runtime {

bool g_ready = false;

namespace {

constexpr int kModules = 8;  // of one simulated machine

std::mutex g_mutex;
bool g_acquired = false;

// A positive count of bytes from the environment, or 0 where the variable is not set.
std::size_t bytes_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return 0;
  }
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  TORCH_CHECK(*end == '\0' && *text != '-' && value > 0,
              name,
              "='",
              text,
              "' is not a number of bytes; give a positive whole number, e.g. 1073741824");
  return value;
}

std::size_t default_limit() {
  if (const std::size_t given = bytes_from_environment("HPU_REFERENCE_MEMORY_LIMIT")) {
    return given;
  }
  std::size_t ranks = 1;
  if (const char* text = std::getenv("LOCAL_WORLD_SIZE")) {
    ranks = static_cast<std::size_t>(std::max(1, std::atoi(text)));
  }
  // The share of the device's memory that the pool takes (contract, 2.2).
  std::size_t percent = 100;
  if (const char* text = std::getenv("PT_HPU_POOL_MEM_ACQUIRE_PERC"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    percent = std::strtoull(text, &end, 0);
    TORCH_CHECK(*end == '\0' && *text != '-' && percent >= 1 && percent <= 100,
                "PT_HPU_POOL_MEM_ACQUIRE_PERC='",
                text,
                "' is not a percentage; give a whole number from 1 to 100");
  }
  // A fifth stays for the host: Python, the loader, what kernels allocate on other threads.
  return memory::machine_memory() / 5 * 4 / ranks / 100 * percent;
}

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
      TORCH_WARN(
          "HABANA_VISIBLE_MODULES='", text, "' is not a comma list of modules 0 to 7; no module is visible");
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

void acquire_slow() {
  if (is_forked_child()) {
    throw_forked();
  }
  std::lock_guard<std::mutex> lock(g_mutex);
  if (g_acquired) {
    return;
  }
  TORCH_CHECK(
      device_count() > 0,
      "no hpu device is visible to this process; set HABANA_VISIBLE_MODULES to a list of modules 0 to 7");
  const std::size_t limit = default_limit();
  try {
    memory::acquire(limit);
  } catch (const std::exception& error) {
    TORCH_CHECK(false,
                "cannot map ",
                limit,
                " bytes of device memory (",
                error.what(),
                "); set HPU_REFERENCE_MEMORY_LIMIT to a smaller number of bytes");
  }
  watch_forks();
  g_acquired = true;
  g_ready = true;
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
    // The module that the launcher gave this process goes by its own index in some clients.
    static const char* const own = std::getenv("HLS_MODULE_ID");
    if (own != nullptr && std::atoi(own) == index) {
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
