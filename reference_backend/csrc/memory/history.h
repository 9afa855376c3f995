// The history of the device's memory, for torch's profiler and for torch's memory viewer. If disabled, it
// costs the read of one flag per allocation.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/block_pool.h"

namespace c10 {
struct GatheredContext;
}

namespace hpu_reference::memory {

// The events and stacks that the history records.
struct HistorySettings {
  bool blocks = false;             // stacks of the live blocks
  bool events = false;             // each allocation and free
  bool allocation_frames = false;  // stack of each allocation
  bool free_frames = false;        // stack of each free
  bool native_frames = false;      // C++ functions in stacks
  std::size_t limit = SIZE_MAX;    // number of latest events to keep
};

using Stack = std::shared_ptr<c10::GatheredContext>;

// An event of the memory history. `address` is a device address.
struct HistoryEvent {
  enum class Action { Allocate, Free, OutOfMemory, Snapshot } action;
  std::uintptr_t address;
  std::int64_t bytes;
  StreamId stream;
  std::int64_t microseconds;  // since 1970
  std::int64_t available;     // free bytes; only for out of memory
  std::string metadata;       // set by the program with set_metadata()
  Stack stack;                // may be null
};

// The present state of a block, with the stack of its allocation if it is known.
struct RecordedBlock {
  BlockState block;
  Stack stack;
};

// The pool's blocks by address, and the recorded events.
struct Snapshot {
  std::vector<RecordedBlock> blocks;
  std::vector<HistoryEvent> events;
  std::int64_t dropped = 0;  // events beyond the limit
};

// Starts recording, or stops it if the settings request nothing. `clear` discards the events so far.
void set_history(const HistorySettings& settings, bool clear);
// Returns true while anything is recorded.
bool has_history();
// Returns the present blocks and the recorded events. The caller must hold the GIL unless no frames were
// recorded.
Snapshot take_snapshot();

// Sets the metadata text of all later events.
void set_metadata(const std::string& text);
std::string metadata();

// A function that is called when memory is short, before the error is thrown. Its arguments are the requested
// bytes, the bytes in use and the limit. It is not called for queued work. An empty function disables it.
using OutOfMemoryObserver = std::function<void(std::int64_t, std::int64_t, std::int64_t)>;
void set_out_of_memory_observer(OutOfMemoryObserver observer);

// Adds `by` to the number of profilers that record memory. torch's own query for such a profiler is too
// slow for each allocation.
void change_profiler_count(int by);

// Updates g_observers after the settings of the log have changed, because the log may be an observer.
void update_logged_memory();

// The number of consumers of memory events. If it is 0, no memory events are recorded.
extern std::atomic<int> g_observers;

// Records an event. record_allocation() and record_free() call it if g_observers is not 0.
void record_history_event(HistoryEvent::Action action, const Block* block);
// Records that memory was too short for an allocation of `bytes`.
void record_out_of_memory(std::size_t bytes);

// Records that the block has become the memory of a tensor.
inline void record_allocation(const Block* block) {
  if (C10_UNLIKELY(g_observers.load(std::memory_order_relaxed) != 0)) {
    record_history_event(HistoryEvent::Action::Allocate, block);
  }
}
// Records that the tensor frees the block. The block still belongs to the tensor during the call.
inline void record_free(const Block* block) {
  if (C10_UNLIKELY(g_observers.load(std::memory_order_relaxed) != 0)) {
    record_history_event(HistoryEvent::Action::Free, block);
  }
}

}  // namespace hpu_reference::memory
