// The figures of this process that hl-smi and libhlml show: a file in shared memory, which they read.
#pragma once

#include <atomic>
#include <cstdint>

namespace hpu_reference::memory {

// The file's contents. The tools have the same layout (tools/csrc/state.h).
struct PublishedRecord {
  char magic[8];                     // "hpuref1"
  std::int64_t process;              // its id
  std::int64_t started;              // when, in clock ticks since the machine started: ids are used again
  std::int64_t module;               // the card that it owns
  std::atomic<std::int64_t> limit;   // bytes
  std::atomic<std::int64_t> in_use;  // bytes of tensors
  std::atomic<std::int64_t> max_in_use;
  std::int64_t reserved;
};
static_assert(sizeof(PublishedRecord) == 64);

// Makes the file, which is removed when the process ends, and returns it; a record of this process alone if
// that cannot be done.
PublishedRecord* publish();

}  // namespace hpu_reference::memory
