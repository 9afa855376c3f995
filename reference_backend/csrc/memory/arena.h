// The device's memory: one memfd, mapped twice.
//
// The device mapping is PROT_NONE and provides the addresses that data_ptr() returns. The host mapping is
// readable and writable, lies at a constant distance from the device mapping, and provides the addresses that
// kernels use. Neither mapping survives a fork.
#pragma once

#include <cstddef>

namespace hpu_reference::memory {

// Both mappings of the device's memory.
struct Arena {
  char* device_base = nullptr;
  char* host_base = nullptr;
  std::size_t size = 0;
  int descriptor = -1;  // file descriptor of the memfd

  // Returns true if the address lies in the device mapping.
  bool contains_device(const void* pointer) const {
    const char* p = static_cast<const char*>(pointer);
    return p >= device_base && p < device_base + size;
  }
  // Returns true if the address lies in the host mapping.
  bool contains_host(const void* pointer) const {
    const char* p = static_cast<const char*>(pointer);
    return p >= host_base && p < host_base + size;
  }
  // Returns the host address of a device address. The address may be one past the end of the mapping.
  char* to_host(const void* device) const {
    return host_base + (static_cast<const char*>(device) - device_base);
  }
  // Returns the device address of a host address.
  char* to_device(const void* host) const {
    return device_base + (static_cast<const char*>(host) - host_base);
  }
};

// Creates both mappings of `size` bytes, rounded up to pages. Throws std::system_error.
Arena map_arena(std::size_t size);

// Maps private memory that reads as zeros. A page uses memory only once it is written.
void* reserve_zeros(std::size_t size);

// Releases the pages of a range to the system; the range then reads as zeros. The range is shrunk to whole
// pages.
void release_pages(const Arena& arena, const char* device_begin, std::size_t size);

// Returns the number of bytes that this process may use: the cgroup's limit if it exists, else the machine's
// memory.
std::size_t machine_memory();

}  // namespace hpu_reference::memory
