// The device: how many modules there are, which index a caller means, and its acquisition on first use.
#pragma once

#include <c10/core/Device.h>

#include <atomic>

namespace hpu_reference::runtime {

// The device of this process.
inline const c10::Device kDevice(c10::DeviceType::HPU, 0);

// Maps the device's memory; throws if it cannot.
using AcquireFunction = void (*)();

// Registers the function that maps the memory when the device is acquired; the memory layer does while the
// library is loaded. Returns true.
bool register_memory(AcquireFunction acquire);

// True once the device is acquired, except in a forked child.
extern std::atomic<bool> g_ready;

// Acquires the device; see acquire().
void acquire_slow();

// Makes the device usable; throws in a forked child. Cheap once acquired.
inline void acquire() {
  if (C10_UNLIKELY(!g_ready.load(std::memory_order_acquire))) {
    acquire_slow();
  }
}

// True if this process has acquired the device and is not a forked child of the one that did.
bool is_initialized();

// Number of modules of the simulated machine that HABANA_VISIBLE_MODULES makes visible; never throws.
c10::DeviceIndex device_count() noexcept;

// Returns 0, the only index of a process. An index at or above device_count() throws; another one than 0
// warns once.
c10::DeviceIndex checked_index(c10::DeviceIndex index);

}  // namespace hpu_reference::runtime
