// Differences between the torch releases for which the core is built. No other file checks the release. If a
// release has only added a virtual function, the core's function has no `override`. The core was built with
// torch 2.6, 2.13 and 2.15. The version numbers below were not tested with the releases between these.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include "device_key.h"

#define HPU_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace hpu_reference {

#if HPU_TORCH_AT_LEAST(2, 9)
using DeviceAllocator = c10::DeviceAllocator;
#else
// The part of c10::DeviceAllocator that the core uses, for releases without c10::DeviceAllocator.
class DeviceAllocator : public c10::Allocator {
 public:
  virtual bool initialized() = 0;
  virtual void emptyCache(std::pair<unsigned long long, unsigned long long> pool = {0, 0}) = 0;
  virtual void recordStream(const c10::DataPtr& pointer, c10::Stream stream) = 0;
  virtual c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(c10::DeviceIndex device) = 0;
  virtual void resetPeakStats(c10::DeviceIndex device) = 0;
};
#endif

#if HPU_TORCH_AT_LEAST(2, 8)
namespace statistics = c10::CachingAllocator;
#else
namespace statistics = c10::CachingDeviceAllocator;
#endif

#ifdef REGISTER_HOST_ALLOCATOR
// torch's classes for the allocator of pinned memory and its statistics, if the release has them.
using HostAllocator = at::HostAllocator;
using HostStatistics = at::HostStats;
#else
// The part of at::HostAllocator that the core uses, for releases without at::HostAllocator.
class HostAllocator : public c10::Allocator {
 public:
  virtual bool record_event(void* pointer, void* context, c10::Stream stream) = 0;
  virtual void empty_cache() = 0;
  virtual void reset_accumulated_stats() = 0;
  virtual void reset_peak_stats() = 0;
};
// The part of at::HostStats that the core uses, for releases without at::HostStats.
struct HostStatistics {
  struct {
    std::int64_t current = 0;
    std::int64_t peak = 0;
  } allocated_bytes;
};
#define REGISTER_HOST_ALLOCATOR(device, allocator)
#endif

// Registers a function in a DispatchStub, torch's table of functions by device. Has no effect in releases
// whose tables have no entry for HPU. Include the header of the table before this header.
#if DEVICE_KEY_IS_PRIVATEUSE1
#define REGISTER_DEVICE_DISPATCH(table, function) REGISTER_PRIVATEUSE1_DISPATCH(table, function)
#elif defined(REGISTER_HPU_DISPATCH)
#define REGISTER_DEVICE_DISPATCH(table, function) REGISTER_HPU_DISPATCH(table, function)
#else
#define REGISTER_DEVICE_DISPATCH(table, function)
#endif

// The error that becomes Python's SyntaxError. Older releases do not have the class.
#if HPU_TORCH_AT_LEAST(2, 13)
using SyntaxError = c10::SyntaxError;
#else
using SyntaxError = c10::Error;
#endif

// Marks the functions of a device guard that older releases require not to throw.
#if HPU_TORCH_AT_LEAST(2, 9)
#define HPU_GUARD_NOEXCEPT
#else
#define HPU_GUARD_NOEXCEPT noexcept
#endif

// A structured kernel sets its outputs through functions of torch. These functions have a parameter for
// dimension names, except in releases without named tensors.
#if __has_include(<ATen/core/Dimname.h>)
#define HPU_NAMES_PARAMETER , at::DimnameList names
#define HPU_NAMES_ARGUMENT , names
#else
#define HPU_NAMES_PARAMETER
#define HPU_NAMES_ARGUMENT
#endif

// Returns true if a Python object refers to the tensor.
template <class Impl>
bool has_python_object(const Impl* impl) {
  const auto* slot = impl->pyobj_slot();
  if constexpr (requires { slot->load_pyobj(); }) {
    return slot->load_pyobj() != nullptr;
  } else {
    return slot->_unchecked_untagged_pyobj() != nullptr;
  }
}

// Sets the size of a storage, even if it is not resizable.
template <class Storage>
void set_bytes(Storage* storage, std::size_t bytes) {
  if constexpr (requires { storage->unsafe_set_nbytes(bytes); }) {
    storage->unsafe_set_nbytes(bytes);
  } else {
    storage->set_nbytes(bytes);
  }
}

}  // namespace hpu_reference
