// The device: how many modules there are, which index a caller means, and its acquisition on first use.
#pragma once

#include <c10/core/Device.h>

namespace hpu_reference::runtime {

// The device of this process.
inline const c10::Device kDevice(c10::DeviceType::HPU, 0);

// Maps the device's memory; throws if it cannot.
using AcquireFunction = void (*)();

// Names what maps the memory when the device is acquired. The memory calls it while the library is loaded;
// always true.
bool register_memory(AcquireFunction acquire);

extern bool g_ready;

void acquire_slow();

// Makes the device usable; throws in a forked child. Cheap once acquired.
inline void acquire() {
  if (C10_UNLIKELY(!g_ready)) {
    acquire_slow();
  }
}

bool is_initialized();

// Number of modules of the simulated machine that HABANA_VISIBLE_MODULES lets this process see; never throws.
c10::DeviceIndex device_count() noexcept;

// The one index there is, 0. An index at or above device_count() throws; another non-zero one warns once.
c10::DeviceIndex checked_index(c10::DeviceIndex index);

}  // namespace hpu_reference::runtime
