// Memory that processes share: one user's, on one machine, in one container. All of it is memory without a
// name (memfd), which the system takes back when the last process that maps it has ended, however it ended.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace hpu_reference::distributed {

// The place at which another process of the machine finds a memfd; plain data, itself passed through memory.
struct MemoryLocation {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t device = 0;  // these two are the same for all who have opened the same memory
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
};
// The place of this process's memfd. Throws std::system_error.
MemoryLocation location_of(int descriptor);

// A view of shared memory. Children forked later do not have it.
class Mapping {
 public:
  Mapping() = default;
  // Makes new memory of zeros, which reads as a file descriptor `descriptor()` until `seal()`.
  static Mapping make(std::size_t size);
  // Opens the memory at that place: throws std::system_error if this process may not, and if other memory is
  // found there.
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
  // Closes the descriptor: no other process can open the memory any more.
  void seal();

 private:
  Mapping(int descriptor, std::size_t size, bool writable);

  char* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::int64_t owner_ = 0;  // the process that has the view
};

// Another process, whose end this one wants to notice.
class Process {
 public:
  explicit Process(std::int64_t id);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  bool has_ended() const;

 private:
  const std::int64_t id_;
  int descriptor_ = -1;  // none on systems without pidfd
};

// Words that are the same for two processes only if they run under one kernel, for one user, in one
// container.
std::string sharing_domain();

// A number that no one guesses.
std::uint64_t random_number();

// Waits in shared memory until the word is no longer `seen`, another process calls wake_all(), or that much
// time has passed.
void wait_for_change(const std::uint32_t* word, std::uint32_t expected, std::int64_t milliseconds);
// Wakes all who wait for the word, in all processes.
void wake_all(const std::uint32_t* word);

}  // namespace hpu_reference::distributed
