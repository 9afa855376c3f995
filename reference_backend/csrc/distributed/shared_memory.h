// Memory that processes of one user share on one machine in one container. All of it is unnamed memory
// (memfd). The system frees it when the last process that maps it ends, even after a crash.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace hpu_reference::distributed {

// The location at which another process of the machine can open a memfd. Plain data, which is itself passed
// through shared memory.
struct MemoryLocation {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t device = 0;  // device and inode: the same for all processes that open this memory
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
};
// Returns the location of a memfd of this process. Throws std::system_error.
MemoryLocation location_of(int descriptor);

// A mapping of shared memory. Children that are forked later do not have it.
class Mapping {
 public:
  Mapping() = default;
  // Creates zeroed memory, which other processes can open through `descriptor()` until `seal()`.
  static Mapping make(std::size_t size);
  // Opens the memory at the location. Throws std::system_error if this process lacks the permission or if the
  // location refers to other memory.
  static Mapping open(const MemoryLocation& location, bool writable);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  char* data() const {
    return data_;
  }
  int descriptor() const {
    return descriptor_;
  }
  // Closes the descriptor. After this, no other process can open the memory.
  void seal();

 private:
  Mapping(int descriptor, std::size_t size, bool writable);

  char* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::int64_t owner_ = 0;  // id of the process that has the mapping
};

// Another process whose end this process can detect.
class Process {
 public:
  explicit Process(std::int64_t id);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  bool has_ended() const;

 private:
  const std::int64_t id_;
  int descriptor_ = -1;  // -1 on systems without pidfd
};

// Returns a text that is equal for two processes only if they run under one kernel, for one user, in one
// container.
std::string sharing_domain();

// Returns an unpredictable number.
std::uint64_t random_number();

// Waits in shared memory until the word differs from `expected`, another process calls wake_all(), or
// `milliseconds` have passed.
void wait_for_change(const std::uint32_t* word, std::uint32_t expected, std::int64_t milliseconds);
// Wakes all threads that wait for the word, in all processes.
void wake_all(const std::uint32_t* word);

}  // namespace hpu_reference::distributed
