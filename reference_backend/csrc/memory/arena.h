// The device's memory: one memfd, mapped twice.
//
// The device view is PROT_NONE and is what data_ptr() shows; the host view is readable and writable, lies at
// a constant distance, and is what kernels use. Neither view survives a fork.
#pragma once

#include <cstddef>

namespace hpu_reference::memory {

// Both views of the device's memory.
struct Arena {
  char* device_base = nullptr;
  char* host_base = nullptr;
  std::size_t size = 0;
  int descriptor = -1;  // of the memfd

  // True if the address lies in the device view.
  bool contains_device(const void* pointer) const {
    const char* p = static_cast<const char*>(pointer);
    return p >= device_base && p < device_base + size;
  }
  // True if the address lies in the host view.
  bool contains_host(const void* pointer) const {
    const char* p = static_cast<const char*>(pointer);
    return p >= host_base && p < host_base + size;
  }
  // Host address of a device address; also valid one past the end.
  char* to_host(const void* device) const {
    return host_base + (static_cast<const char*>(device) - device_base);
  }
  // Device address of a host address.
  char* to_device(const void* host) const {
    return device_base + (static_cast<const char*>(host) - host_base);
  }
};

// Maps both views of `size` bytes (rounded up to pages). Throws std::system_error.
Arena map_arena(std::size_t size);

// Maps private memory that reads as zeros and costs pages only once it is written.
void* reserve_zeros(std::size_t size);

// Gives the pages of a range back to the system; the range then reads as zeros. The range is shrunk to pages.
void release_pages(const Arena& arena, const char* device_begin, std::size_t size);

// Bytes that this process may use: the cgroup's limit if there is one, else the machine's memory.
std::size_t machine_memory();

}  // namespace hpu_reference::memory
