// The device: the number of modules, the check of device indices that callers pass, and the acquisition of
// the device on first use.
#pragma once

#include <c10/core/Device.h>

#include <atomic>

#include "device_key.h"

namespace hpu_reference::runtime {

inline const c10::Device kDevice(c10::DeviceType::DEVICE_KEY, 0);

// Maps the device's memory. Throws if the memory cannot be mapped.
using AcquireFunction = void (*)();

// Registers the function that maps the device's memory when the device is acquired. The memory layer calls
// this while the library is loaded. Returns true.
bool register_memory(AcquireFunction acquire);

// True once the device is acquired; false in a forked child.
extern std::atomic<bool> g_ready;

void acquire_slow();

// Makes the device usable. Throws in a forked child. Cheap once the device is acquired.
inline void acquire() {
  if (C10_UNLIKELY(!g_ready.load(std::memory_order_acquire))) {
    acquire_slow();
  }
}

// Returns true if this process has acquired the device. Returns false in a forked child of the process that
// acquired it.
bool is_initialized();

// Returns the number of modules of the simulated machine that HABANA_VISIBLE_MODULES makes visible. Never
// throws.
c10::DeviceIndex device_count() noexcept;

// Throws if the index is not below device_count(). This check is enough for a call that makes a device
// current, because the current device is always hpu:0.
void check_exists(c10::DeviceIndex index);

// Returns 0, the only index of a process. Throws if the index is neither 0 nor the module of this process.
c10::DeviceIndex checked_index(c10::DeviceIndex index);

}  // namespace hpu_reference::runtime
