// The device: host memory that is addressed through a window which no host access can use.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstdint>

namespace tiny {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;

// Bit 60 makes an address non-canonical: a host access to it faults, arithmetic on it works.
constexpr uintptr_t kWindow = uintptr_t(1) << 60;

// The address that a kernel uses for a device address; host addresses stay as they are.
template <typename T>
inline T* local(T* address) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) & ~kWindow);
}

// How far bring-up has come (variable TINY_STAGE): what registers kernels asks it when the library is loaded.
int stage();

// The memory that tensors of the device live in.
c10::Allocator* allocator();

// Calls `f` with a value of the C++ type of a dtype that kernels compute in.
template <typename F>
inline void visit(c10::ScalarType dtype, const char* name, F&& f) {
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

// Element of any dtype of `visit` as a T. Kept out of line: what counts here is the time that building takes.
template <typename T>
[[gnu::noinline]] T load(const char* from, c10::ScalarType dtype) {
  T value{};
  visit(dtype, "load", [&](auto type) {
    value = static_cast<T>(*reinterpret_cast<const decltype(type)*>(from));
  });
  return value;
}

template <typename T>
[[gnu::noinline]] void store(char* to, c10::ScalarType dtype, T value) {
  visit(dtype, "store", [&](auto type) {
    *reinterpret_cast<decltype(type)*>(to) = static_cast<decltype(type)>(value);
  });
}

}  // namespace tiny
