// The device's memory is host memory. Its tensors have addresses that the host cannot access.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstdint>

namespace tiny {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

// Bit 60 makes an address non-canonical: a host access to the address faults, and pointer arithmetic works.
constexpr uintptr_t kWindow = uintptr_t(1) << 60;

// Returns the host address of a device address. A host address is returned unchanged.
template <typename T>
inline T* to_host_address(T* address) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) & ~kWindow);
}

// Returns the development stage of the device, which the variable TINY_STAGE selects. When the library is
// loaded, it registers only the kernels of this stage.
int development_stage();

// Returns the allocator of the device's memory.
c10::Allocator* allocator();

// Calls `f` with a value of the C++ type of `dtype`. Raises an error if kernels do not support the dtype.
template <typename F>
inline void dispatch_dtype(c10::ScalarType dtype, const char* name, F&& f) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return f(float{});
    case c10::ScalarType::Double:
      return f(double{});
    case c10::ScalarType::Long:
      return f(int64_t{});
    case c10::ScalarType::Int:
      return f(int32_t{});
    case c10::ScalarType::Bool:
      return f(bool{});
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"", name, "\" not implemented for '", dtype, "' on tiny");
  }
}

// Reads an element of any dtype that `dispatch_dtype` supports, and converts it to T. The function is not
// inlined, because inlining would make the build slower.
template <typename T>
[[gnu::noinline]] T load(const char* from, c10::ScalarType dtype) {
  T value{};
  dispatch_dtype(dtype, "load", [&](auto type) {
    value = static_cast<T>(*reinterpret_cast<const decltype(type)*>(from));
  });
  return value;
}

template <typename T>
[[gnu::noinline]] void store(char* to, c10::ScalarType dtype, T value) {
  dispatch_dtype(dtype, "store", [&](auto type) {
    *reinterpret_cast<decltype(type)*>(to) = static_cast<decltype(type)>(value);
  });
}

}  // namespace tiny
