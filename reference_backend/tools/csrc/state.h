// What the tools know of the simulated node: the records that processes publish, and fixed facts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hpu_reference::tools {

// Modules (cards) of the node.
constexpr unsigned kModules = 8;

// The layout of a record; the device's core writes it (csrc/memory/shared_statistics.h).
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

// A live process that uses the device.
struct Process {
  std::int64_t id = 0;
  unsigned module = 0;
  std::int64_t limit = 0;       // bytes
  std::int64_t in_use = 0;      // bytes of tensors
  std::int64_t max_in_use = 0;  // bytes
  std::int64_t ticks = 0;       // clock ticks of processor time so far
  std::string name;
};

// The live processes, of all users whose records can be read. Records of dead ones are passed over.
std::vector<Process> processes();

// The memory of a module in bytes, as a process without a limit of its own would have it.
std::int64_t default_limit();

// Percent of one processor that each module's processes took in a tenth of a second, at most 100; measured at
// most once a second.
std::vector<unsigned> utilization();

}  // namespace hpu_reference::tools
