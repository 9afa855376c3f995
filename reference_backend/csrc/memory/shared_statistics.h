// Memory statistics of this process for hl-smi and libhlml, which read them from a file in shared memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace hpu_reference::memory {

// The contents of the file. hl-smi and libhlml declare the same layout (hlml/node_state.h).
struct SharedStatistics {
  char magic[8];                     // "hpuref1"
  std::int64_t process;              // process id
  std::int64_t started;              // start time in clock ticks since boot; process ids are reused
  std::int64_t module;               // module index of the process
  std::atomic<std::int64_t> limit;   // bytes
  std::atomic<std::int64_t> in_use;  // bytes of tensors
  std::atomic<std::int64_t> max_in_use;
  std::int64_t reserved;
};
static_assert(sizeof(SharedStatistics) == 64);

// Creates the file, which is removed when the process ends, and returns its contents. If the file cannot be
// created, returns statistics in private memory.
SharedStatistics* create_shared_statistics();

}  // namespace hpu_reference::memory
