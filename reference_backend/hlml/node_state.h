// State of the simulated node for the tools: the records that processes write to shared memory, and
// constants.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hpu_reference::tools {

// Number of modules (Gaudi cards) of the simulated node.
constexpr unsigned kModules = 8;

// The record of a process in a shared file. The device's core writes it (csrc/memory/shared_statistics.h).
struct Record {
  char magic[8];
  std::int64_t process;
  std::int64_t started;
  std::int64_t module;
  std::int64_t limit;
  std::int64_t in_use;
  std::int64_t max_in_use;
  std::int64_t reserved;
};
static_assert(sizeof(Record) == 64);

// A live process that uses the simulated device.
struct Process {
  std::int64_t id = 0;
  unsigned module = 0;
  std::int64_t limit = 0;       // bytes
  std::int64_t in_use = 0;      // bytes of tensors
  std::int64_t max_in_use = 0;  // bytes
  std::int64_t ticks = 0;       // clock ticks of processor time so far
  std::string name;
};

// Returns the live processes of all users, sorted by id. Unreadable records, and records of exited processes,
// are skipped.
std::vector<Process> processes();

// Returns the default memory of a module in bytes: 4/5 of the host's memory.
std::int64_t default_limit();

// Returns the load of each module: the percentage of one processor that the module's processes used in a
// tenth of a second, at most 100. Calls within one second return the same measurement.
std::vector<unsigned> utilization();

}  // namespace hpu_reference::tools
