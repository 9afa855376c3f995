// The memory that a piece of work uses. It orders work on different streams: work waits for earlier work of
// other streams that writes what it reads, or uses what it writes (contract, 1.4). Memory that is freed
// meanwhile stays until its users have run.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

#include "memory/block_pool.h"
#include "runtime/queue.h"

namespace hpu_reference::memory {

// What orders work on different streams (HPU_REFERENCE_STREAM_ORDER): the memory it uses, or as on CUDA the
// events and waits of the program alone.
enum class StreamOrder { Memory, Events };
// The order of this process. Throws if the variable has another value.
StreamOrder stream_order();

// The blocks that a piece of work reads and writes.
class Footprint {
 public:
  // Adds the storage's memory, if it has any.
  void add(const c10::StorageImpl* device, bool written);
  // Adds the block that starts at the address on the device, if there is one.
  void add_address(const void* device, bool written);
  // Adds a block. `freed`: its tensor has died since the work was recorded.
  void add(Block* block, bool written, bool freed = false) {
    uses_.push_back({block, written, freed});
  }

  // True if work on the stream has to wait for work of another one. Launches nothing.
  bool has_conflicts(c10::StreamId stream) const;
  // Returns when work may use the memory at once, as the next on the stream; the calling thread helps. With
  // `surface`, throws an error of work on other streams that has written the memory.
  void wait(c10::StreamId stream, bool surface = false) const;
  // Checks the order of work of that name that runs at once, if the program alone is to see to it.
  void check(c10::StreamId stream, const std::string& name) const;
  // Appends the work to the stream's queue, behind what it has to wait for. `keeps`: the memory stays until
  // the work has run even if StreamOrder::Events leaves that to the program.
  void enqueue(c10::StreamId stream, std::unique_ptr<runtime::Work> work, bool keeps = false) const;

 private:
  std::vector<runtime::QueueMark> conflicts(int queue, bool failed = false) const;

  c10::SmallVector<BlockUse, 8> uses_;
};

// Waits until the host, or work that runs at once on the current stream, may use the storage's memory. No
// effect on a thread that must not wait.
void wait_for_users(const c10::StorageImpl* device, bool written, bool surface);

// The same for the operator of that name, whose order with other streams is checked too if the program alone
// is to see to it.
void use_now(const c10::StorageImpl* device, bool written, bool surface, const char* name);

// True if work that has not run may use the storage's memory; cheap.
bool may_have_users(const c10::StorageImpl* device);

}  // namespace hpu_reference::memory
