// Access sets: the memory that a piece of work reads and writes. Access sets order work on different streams,
// as Gaudi does (docs/decisions/0012-streams-by-memory.md). Before work reads memory, it waits for earlier
// work of other streams that writes the memory. Before work writes memory, it waits for earlier work that
// reads or writes the memory. Memory that is freed meanwhile is retained until its users have run.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

#include "memory/block_pool.h"
#include "runtime/queue.h"

namespace hpu_reference::memory {

// The order of work on different streams (HPU_REFERENCE_STREAM_ORDER). Work is ordered by the memory that it
// accesses or, as on CUDA, only by the program's events and waits.
enum class StreamOrder { Memory, Events };
// Returns the stream order of this process. Throws if the environment variable has another value.
StreamOrder stream_order();

// The blocks that a piece of work reads and writes.
class AccessSet {
 public:
  // Adds the storage's memory, if the storage has memory.
  void add(const c10::StorageImpl* device, bool written);
  // Adds the block that starts at the device address, if such a block exists.
  void add_address(const void* device, bool written);
  // Adds a block. `freed`: the block's tensor has been destroyed since the work was recorded.
  void add(Block* block, bool written, bool freed = false) {
    uses_.push_back({block, written, freed});
  }

  // Returns true if work on the stream must wait for work of another stream. Launches nothing.
  bool has_conflicts(c10::StreamId stream) const;
  // Waits until work may use the memory at once, as the next work on the stream; the calling thread helps to
  // run pending work. If `throw_errors` is true, throws an error of work on other streams that wrote the
  // memory.
  void wait(c10::StreamId stream, bool throw_errors = false) const;
  // Checks for missing waits between streams before work runs at once, if the stream order is Events. `name`
  // names the work.
  void check(c10::StreamId stream, const std::string& name) const;
  // Appends the work to the stream's queue, after the work that it must wait for. `retain_memory`: the memory
  // is retained until the work has run, even if the stream order is Events.
  void enqueue(c10::StreamId stream, std::unique_ptr<runtime::Work> work, bool retain_memory = false) const;

 private:
  std::vector<runtime::QueueMark> conflicts(int queue, bool failed = false) const;

  c10::SmallVector<BlockUse, 8> uses_;
};

// Waits until the host, or work that runs at once on the current stream, may use the storage's memory. Has no
// effect on a thread that must not wait.
void wait_for_users(const c10::StorageImpl* device, bool written, bool throw_errors);

// Waits as wait_for_users() does. If the stream order is Events, also checks for missing waits between
// streams. `name` names the operator that uses the memory.
void wait_and_check_races(const c10::StorageImpl* device, bool written, bool throw_errors, const char* name);

// Returns true if work that has not run may use the storage's memory. Cheap.
bool may_have_users(const c10::StorageImpl* device);

}  // namespace hpu_reference::memory
