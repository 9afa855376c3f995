// The management library of the simulated node: the functions that habana-pyhlml calls. Memory, processes and
// utilization are measured on the live processes. Figures of hardware are constants, or the functions return
// kNotSupported.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "node_state.h"

namespace {

using namespace hpu_reference::tools;

enum Status : unsigned {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kTimeout = 10,
};

constexpr unsigned kIdleMilliwatts = 100'000;
constexpr unsigned kMostMilliwatts = 600'000;
constexpr unsigned kMegahertz = 1'650;
constexpr unsigned kIdleCelsius = 30;

std::atomic<int> g_initialized{0};

// Returns a handle of a module: the number of the module plus one, so that a handle is never null.
void* handle_of(unsigned module) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(module) + 1);
}
unsigned module_of(const void* handle) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(handle) - 1);
}

Status check(const void* handle, const void* out) {
  if (g_initialized.load() == 0) {
    return kUninitialized;
  }
  return out == nullptr || module_of(handle) >= kModules ? kInvalidArgument : kSuccess;
}

Status copy_text(const std::string& text, char* out, unsigned size) {
  if (out == nullptr) {
    return kInvalidArgument;
  }
  if (text.size() + 1 > size) {
    return kInsufficientSize;
  }
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

std::string environment(const char* name, const char* default_value) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? default_value : text;
}

std::string version() {
  return environment("HPU_REFERENCE_SMI_VERSION", HPU_REFERENCE_VERSION);
}

std::string model() {
  const std::string name = environment("HPU_REFERENCE_DEVICE_NAME", "GAUDI2");
  return name == "GAUDI" || name == "gaudi"     ? "HL-205"
         : name == "GAUDI3" || name == "gaudi3" ? "HL-325L"
                                                : "HL-225";
}

std::string format_module_number(const char* format, unsigned module) {
  char text[64];
  std::snprintf(text, sizeof(text), format, module);
  return text;
}

std::string uuid(unsigned module) {
  return format_module_number("01P0-HLSIM0A0-00-SIMUL8-%02u-00-00", module);
}

std::string bus_id(unsigned module) {
  return format_module_number("0000:%02x:00.0", 0x10 + module);
}

unsigned used_percent(unsigned module) {
  return utilization()[module];
}

struct Memory {
  unsigned long long free = 0;
  unsigned long long total = 0;
  unsigned long long used = 0;
};

Memory memory_of(unsigned module) {
  Memory memory;
  for (const Process& process : processes()) {
    if (process.module == module) {
      memory.total = std::max(memory.total, static_cast<unsigned long long>(process.limit));
      memory.used += static_cast<unsigned long long>(process.in_use);
    }
  }
  if (memory.total == 0) {
    memory.total = static_cast<unsigned long long>(default_limit());
  }
  memory.used = std::min(memory.used, memory.total);
  memory.free = memory.total - memory.used;
  return memory;
}

// The event types for which a program waits. Each set is a separate object, so that several threads can wait
// at the same time.
struct EventSet {
  unsigned long long types = 0;
};

struct EventData {
  void* device;
  unsigned long long type;
};

struct PciCapabilities {
  char link_speed[10];
  char link_width[10];
  char link_max_speed[10];
  char link_max_width[10];
};

struct PciInfo {
  unsigned bus;
  char bus_id[19];
  unsigned device;
  unsigned domain;
  unsigned pci_device_id;
  PciCapabilities capabilities;
  unsigned revision;
  unsigned subsystem;
};

struct Utilization {
  unsigned aip;
  unsigned memory;
};

struct Pcb {
  char version[32];
  char assembly[32];
};

struct Mac {
  unsigned char address[6];
  int id;
};

struct Violation {
  unsigned long long reference_time;
  unsigned long long violation_time;
};

template <class Number>
Status store_if_valid(void* device, Number* out, Number value) {
  const Status status = check(device, out);
  if (status == kSuccess) {
    *out = value;
  }
  return status;
}

}  // namespace

#define HLML extern "C" __attribute__((visibility("default"))) unsigned

HLML hlml_init() {
  g_initialized++;
  return kSuccess;
}
HLML hlml_init_with_flags(unsigned flags) {
  return flags == 0 ? hlml_init() : static_cast<unsigned>(kInvalidArgument);
}
HLML hlml_shutdown() {
  if (g_initialized.load() == 0) {
    return kUninitialized;
  }
  g_initialized--;
  return kSuccess;
}

HLML hlml_device_get_count(unsigned* count) {
  return store_if_valid(handle_of(0), count, kModules);
}
HLML hlml_device_get_handle_by_index(unsigned index, void** device) {
  const Status status = check(handle_of(0), device);
  if (status != kSuccess || index >= kModules) {
    return status != kSuccess ? status : kInvalidArgument;
  }
  *device = handle_of(index);
  return kSuccess;
}
HLML hlml_device_get_handle_by_pci_bus_id(const char* address, void** device) {
  const Status status = check(handle_of(0), device);
  if (status != kSuccess || address == nullptr) {
    return status != kSuccess ? status : kInvalidArgument;
  }
  for (unsigned module = 0; module < kModules; module++) {
    const std::string whole = bus_id(module);
    if (whole == address || whole.substr(5) == address) {  // "0000:", the PCI domain, is optional
      *device = handle_of(module);
      return kSuccess;
    }
  }
  return kNotFound;
}
HLML hlml_device_get_handle_by_UUID(const char* text, void** device) {
  const Status status = check(handle_of(0), device);
  if (status != kSuccess || text == nullptr) {
    return status != kSuccess ? status : kInvalidArgument;
  }
  for (unsigned module = 0; module < kModules; module++) {
    if (uuid(module) == text) {
      *device = handle_of(module);
      return kSuccess;
    }
  }
  return kNotFound;
}

HLML hlml_device_get_name(void* device, char* name, unsigned size) {
  const Status status = check(device, name);
  return status != kSuccess ? status : copy_text(model(), name, size);
}
HLML hlml_get_model_number(void* device, char* name, unsigned size) {
  return hlml_device_get_name(device, name, size);
}
HLML hlml_device_get_uuid(void* device, char* name, unsigned size) {
  const Status status = check(device, name);
  return status != kSuccess ? status : copy_text(uuid(module_of(device)), name, size);
}
HLML hlml_device_get_serial(void* device, char* name, unsigned size) {
  const Status status = check(device, name);
  return status != kSuccess ? status
                            : copy_text(format_module_number("SIM%05u", module_of(device)), name, size);
}
HLML hlml_device_get_oper_status(void* device, char* name, unsigned size) {
  const Status status = check(device, name);
  return status != kSuccess ? status : copy_text("simulated", name, size);
}
HLML hlml_get_hlml_version(char* text, unsigned size) {
  return g_initialized.load() == 0 ? kUninitialized : copy_text(version(), text, size);
}
HLML hlml_get_driver_version(char* text, unsigned size) {
  return g_initialized.load() == 0 ? kUninitialized : copy_text(version() + "-simulated", text, size);
}
HLML hlml_get_nic_driver_version(char* text, unsigned size) {
  return hlml_get_driver_version(text, size);
}
#define FIRMWARE(function)                                                   \
  HLML function(void* device, char* text, unsigned size) {                   \
    const Status status = check(device, text);                               \
    return status != kSuccess ? status : copy_text("simulated", text, size); \
  }
FIRMWARE(hlml_get_firmware_fit_version)
FIRMWARE(hlml_get_firmware_spi_version)
FIRMWARE(hlml_get_fw_boot_version)
FIRMWARE(hlml_get_fw_os_version)
FIRMWARE(hlml_get_cpld_version)

HLML hlml_device_get_memory_info(void* device, Memory* memory) {
  const Status status = check(device, memory);
  if (status == kSuccess) {
    *memory = memory_of(module_of(device));
  }
  return status;
}
HLML hlml_device_get_utilization_rates(void* device, Utilization* rates) {
  const Status status = check(device, rates);
  if (status == kSuccess) {
    const Memory memory = memory_of(module_of(device));
    rates->aip = used_percent(module_of(device));
    rates->memory = static_cast<unsigned>(memory.used * 100 / memory.total);
  }
  return status;
}
HLML hlml_device_get_process_utilization(void* device, unsigned* percent) {
  return check(device, percent) == kSuccess ? store_if_valid(device, percent, used_percent(module_of(device)))
                                            : store_if_valid(device, percent, 0u);
}
HLML hlml_device_get_power_usage(void* device, unsigned* milliwatts) {
  const Status status = check(device, milliwatts);
  return status != kSuccess ? status
                            : store_if_valid(device,
                                             milliwatts,
                                             kIdleMilliwatts + (kMostMilliwatts - kIdleMilliwatts) / 100 *
                                                                   used_percent(module_of(device)));
}
HLML hlml_device_get_temperature(void* device, unsigned sensor, unsigned* celsius) {
  return sensor > 5 ? static_cast<unsigned>(kInvalidArgument) : store_if_valid(device, celsius, kIdleCelsius);
}
HLML hlml_device_get_temperature_threshold(void* device, unsigned threshold, unsigned* celsius) {
  return threshold > 3 ? static_cast<unsigned>(kInvalidArgument) : store_if_valid(device, celsius, 100u);
}
#define CLOCK(function)                                               \
  HLML function(void* device, unsigned clock, unsigned* megahertz) {  \
    return clock > 3 ? static_cast<unsigned>(kInvalidArgument)        \
                     : store_if_valid(device, megahertz, kMegahertz); \
  }
CLOCK(hlml_device_get_clock_info)
CLOCK(hlml_device_get_max_clock_info)
CLOCK(hlml_device_get_clock_limit_info)

#define NUMBER(function, type, value)                \
  HLML function(void* device, type* out) {           \
    return store_if_valid(device, out, type{value}); \
  }
NUMBER(hlml_device_get_persistence_mode, unsigned, 1)
NUMBER(hlml_device_get_performance_state, unsigned, 0)
NUMBER(hlml_device_get_power_management_default_limit, unsigned, kMostMilliwatts)
NUMBER(hlml_device_get_power_management_limit, unsigned, kMostMilliwatts)
NUMBER(hlml_device_get_power_management_mode, unsigned, 0)
NUMBER(hlml_device_get_hl_revision, int, 0)
NUMBER(hlml_device_get_board_id, unsigned, 0)
NUMBER(hlml_device_get_pcie_replay_counter, unsigned, 0)
NUMBER(hlml_device_get_curr_pcie_link_generation, unsigned, 4)
NUMBER(hlml_device_get_curr_pcie_link_width, unsigned, 16)
NUMBER(hlml_device_get_current_clocks_throttle_reasons, std::uint64_t, 0)
NUMBER(hlml_device_get_total_energy_consumption, std::uint64_t, 0)
NUMBER(hlml_device_get_replaced_rows_pending_status, unsigned, 0)

HLML hlml_device_get_module_id(void* device, unsigned* module) {
  return store_if_valid(device, module, module_of(device));
}
HLML hlml_device_get_minor_number(void* device, unsigned* number) {
  return store_if_valid(device, number, module_of(device));
}
HLML hlml_device_get_power_management_limit_constraints(void* device, unsigned* least, unsigned* most) {
  const Status status =
      check(device, most) == kSuccess ? store_if_valid(device, least, kIdleMilliwatts) : check(device, most);
  return status != kSuccess ? status : store_if_valid(device, most, kMostMilliwatts);
}
HLML hlml_device_set_power_management_limit(void* device, unsigned) {
  const Status status = check(device, &g_initialized);
  return status != kSuccess ? status : kNotSupported;
}
HLML hlml_device_get_supported_performance_states(void* device, unsigned* states, unsigned size) {
  const Status status = check(device, states);
  for (unsigned i = 0; status == kSuccess && i < size; i++) {
    states[i] = i == 0 ? 0 : 32;  // 32 means "unknown" and ends the list
  }
  return status;
}
HLML hlml_device_get_ecc_mode(void* device, unsigned* current, unsigned* pending) {
  const Status status =
      check(device, pending) == kSuccess ? store_if_valid(device, current, 1u) : check(device, pending);
  return status != kSuccess ? status : store_if_valid(device, pending, 1u);
}
HLML hlml_device_get_total_ecc_errors(void* device, unsigned, unsigned, long long* count) {
  return store_if_valid(device, count, 0LL);
}
HLML hlml_device_get_memory_error_counter(void* device, unsigned, unsigned, unsigned, long long* count) {
  return store_if_valid(device, count, 0LL);
}
HLML hlml_device_get_pcie_throughput(void* device, unsigned counter, unsigned* kilobytes) {
  return counter > 1 ? static_cast<unsigned>(kInvalidArgument) : store_if_valid(device, kilobytes, 0u);
}
HLML hlml_device_get_violation_status(void* device, unsigned policy, Violation* violation) {
  const Status status = policy > 1 ? kInvalidArgument : check(device, violation);
  if (status == kSuccess) {
    *violation = {};
  }
  return status;
}
HLML hlml_device_get_replaced_rows(void* device, unsigned cause, unsigned* count, void*) {
  return cause > 1 ? static_cast<unsigned>(kInvalidArgument) : store_if_valid(device, count, 0u);
}
HLML hlml_device_get_pci_info(void* device, PciInfo* info) {
  const Status status = check(device, info);
  if (status == kSuccess) {
    *info = {};
    info->bus = 0x10 + module_of(device);
    info->pci_device_id = 0x1020'1da3;
    copy_text(bus_id(module_of(device)), info->bus_id, sizeof(info->bus_id));
    copy_text("16 GT/s", info->capabilities.link_speed, sizeof(info->capabilities.link_speed));
    copy_text("x16", info->capabilities.link_width, sizeof(info->capabilities.link_width));
    copy_text("16 GT/s", info->capabilities.link_max_speed, sizeof(info->capabilities.link_max_speed));
    copy_text("x16", info->capabilities.link_max_width, sizeof(info->capabilities.link_max_width));
  }
  return status;
}
HLML hlml_device_get_pcb_info(void* device, Pcb* pcb) {
  const Status status = check(device, pcb);
  if (status == kSuccess) {
    copy_text("simulated", pcb->version, sizeof(pcb->version));
    copy_text("simulated", pcb->assembly, sizeof(pcb->assembly));
  }
  return status;
}
// Returns a count of 0, because the simulated node has no network ports.
HLML hlml_device_get_mac_info(void* device, Mac*, unsigned, unsigned, int* count) {
  return store_if_valid(device, count, 0);
}
HLML hlml_get_mac_addr_info(void* device, std::uint64_t* mask, std::uint64_t* external) {
  const Status status = check(device, mask) == kSuccess ? check(device, external) : check(device, mask);
  if (status == kSuccess) {
    mask[0] = mask[1] = external[0] = external[1] = 0;
  }
  return status;
}
HLML hlml_nic_get_link(void* device, std::uint32_t, bool* up) {
  return store_if_valid(device, up, false);
}
HLML hlml_nic_get_statistics(void* device, void* statistics) {
  const Status status = check(device, statistics);
  return status != kSuccess ? status : kNotSupported;
}

HLML hlml_device_get_cpu_affinity(void* device, unsigned words, unsigned long* set) {
  const Status status = check(device, set);
  if (status != kSuccess) {
    return status;
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::memset(set, 0, words * sizeof(*set));
  for (unsigned cpu = 0; cpu < std::min<unsigned>(words * 64, CPU_SETSIZE); cpu++) {
    set[cpu / 64] |= CPU_ISSET(cpu, &allowed) ? 1UL << (cpu % 64) : 0;
  }
  return kSuccess;
}
HLML hlml_device_get_cpu_affinity_within_scope(void* device,
                                               unsigned words,
                                               unsigned long* set,
                                               unsigned scope) {
  return scope > 1 ? static_cast<unsigned>(kInvalidArgument)
                   : hlml_device_get_cpu_affinity(device, words, set);
}
HLML hlml_device_get_memory_affinity(void* device, unsigned words, unsigned long* set, unsigned scope) {
  const Status status = scope > 1 ? kInvalidArgument : check(device, set);
  if (status == kSuccess && words > 0) {
    std::memset(set, 0, words * sizeof(*set));
    set[0] = 1;
  }
  return status;
}
HLML hlml_device_set_cpu_affinity(void* device) {
  return check(device, &g_initialized);
}
HLML hlml_device_clear_cpu_affinity(void* device) {
  return check(device, &g_initialized);
}

HLML hlml_event_set_create(void** set) {
  if (g_initialized.load() == 0 || set == nullptr) {
    return set == nullptr ? kInvalidArgument : kUninitialized;
  }
  *set = new (std::nothrow) EventSet();
  return kSuccess;
}
HLML hlml_event_set_free(void* set) {
  delete static_cast<EventSet*>(set);
  return set == nullptr ? kInvalidArgument : kSuccess;
}
HLML hlml_device_register_events(void* device, unsigned long long types, void* set) {
  const Status status = check(device, set);
  if (status == kSuccess) {
    static_cast<EventSet*>(set)->types |= types;
  }
  return status;
}
// Waits for an event, for at most `timeout` milliseconds. A simulated module has no errors and no clock
// changes, so the wait always lasts until the timeout.
HLML hlml_event_set_wait(void* set, EventData* data, unsigned timeout) {
  const Status status =
      check(handle_of(0), set) == kSuccess ? check(handle_of(0), data) : check(handle_of(0), set);
  if (status != kSuccess) {
    return status;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout));
  *data = {};
  return kTimeout;
}

// For hl-smi: writes the live processes to `text`, as lines "id module bytes-in-use maximum-bytes-in-use
// name". Returns the size that the whole text needs; the written text is truncated to `size`.
HLML hpu_reference_processes(char* text, unsigned size) {
  std::string lines;
  for (const Process& process : processes()) {
    lines += std::to_string(process.id) + ' ' + std::to_string(process.module) + ' ' +
             std::to_string(process.in_use) + ' ' + std::to_string(process.max_in_use) + ' ' + process.name +
             '\n';
  }
  if (text != nullptr && size > 0) {
    const std::size_t count = std::min<std::size_t>(size - 1, lines.size());
    std::memcpy(text, lines.data(), count);
    text[count] = '\0';
  }
  return static_cast<unsigned>(lines.size() + 1);
}
