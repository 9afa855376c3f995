#include "memory/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

namespace hpu_reference::memory {

namespace {

int g_memfd = -1;

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t cgroup_limit() {
  // The first file belongs to cgroup version 2, the second to version 1. Inside a container, the process sees
  // its own cgroup as the root.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::uint64_t value = 0;
    if (file >> value) {  // "max" does not parse and means no limit
      return static_cast<std::size_t>(value);
    }
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace

Arena map_arena(std::size_t size) {
  const std::size_t page = page_size();
  size = (size + page - 1) / page * page;
  g_memfd = memfd_create("hpu-device-memory", MFD_CLOEXEC);
  if (g_memfd < 0) {
    fail("memfd_create for device memory");
  }
  if (ftruncate(g_memfd, static_cast<off_t>(size)) != 0) {
    fail("ftruncate of device memory");
  }
  const int flags = MAP_SHARED | MAP_NORESERVE;
  void* host = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, g_memfd, 0);
  if (host == MAP_FAILED) {
    fail("mmap of the host mapping of device memory");
  }
  void* device = mmap(nullptr, size, PROT_NONE, flags, g_memfd, 0);
  if (device == MAP_FAILED) {
    fail("mmap of the device mapping of device memory");
  }
  // A forked child would otherwise share (and corrupt) the parent's device memory.
  if (madvise(host, size, MADV_DONTFORK) != 0 || madvise(device, size, MADV_DONTFORK) != 0) {
    fail("madvise(MADV_DONTFORK) of device memory");
  }
  madvise(host, size, MADV_DONTDUMP);
  return Arena{static_cast<char*>(device), static_cast<char*>(host), size, g_memfd};
}

void* reserve_zeros(std::size_t size) {
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fail("mmap of the index of device memory");
  }
  return memory;
}

void release_pages(const Arena& arena, const char* device_begin, std::size_t size) {
  const auto page = page_size();
  const auto begin = static_cast<std::size_t>(device_begin - arena.device_base);
  const std::size_t first = (begin + page - 1) / page * page;
  const std::size_t last = (begin + size) / page * page;
  if (first < last) {
    madvise(arena.host_base + first, last - first, MADV_REMOVE);
  }
}

std::size_t machine_memory() {
  const auto physical = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_size();
  return std::min(physical, cgroup_limit());
}

}  // namespace hpu_reference::memory
