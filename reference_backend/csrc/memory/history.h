// What happened to the device's memory: for torch's profiler, and for the history that torch's viewer of
// memory shows. Off, it costs one flag per allocation.
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

// How much the history keeps.
struct HistorySettings {
  bool blocks = false;             // live blocks, as allocated
  bool events = false;             // each allocation and free
  bool allocation_frames = false;  // with the program's stack
  bool free_frames = false;        // the stack of frees too
  bool native_frames = false;      // C++ functions in stacks
  std::size_t limit = SIZE_MAX;    // events kept, the latest
};

using Stack = std::shared_ptr<c10::GatheredContext>;

// One event. The address is the device's.
struct HistoryEvent {
  enum class Action { Allocate, Free, OutOfMemory, Snapshot } action;
  std::uintptr_t address;
  std::int64_t bytes;
  StreamId stream;
  std::int64_t microseconds;  // since 1970
  std::int64_t available;     // bytes that were free, for out of memory
  std::string metadata;       // the program's
  Stack stack;                // may be null
};

// A block of the pool as it is now, with the stack of its allocation if that is known.
struct RecordedBlock {
  BlockState block;
  Stack stack;
};

// The pool's blocks by address, and the events kept.
struct Snapshot {
  std::vector<RecordedBlock> blocks;
  std::vector<HistoryEvent> events;
  std::int64_t dropped = 0;  // events beyond the limit
};

// Starts to record, or stops if the settings ask for nothing; `clear` forgets the events so far.
void set_history(const HistorySettings& settings, bool clear);
// True while anything is recorded.
bool has_history();
// The blocks now, with what was recorded. The caller has the interpreter's lock or needs no frames.
Snapshot take_snapshot();

// A text that events get from now on.
void set_metadata(const std::string& text);
std::string metadata();

// Function that is called when memory is short, before the error is thrown, with the bytes asked for, in use
// and of the limit. It is not called for queued work. An empty one switches this off.
using OutOfMemoryObserver = std::function<void(std::int64_t, std::int64_t, std::int64_t)>;
void set_out_of_memory_observer(OutOfMemoryObserver observer);

// Counts a profiler that asks for memory, or one less. torch's own question, whether one runs, is too slow
// for each allocation.
void count_profilers(int change);

// Follows the settings of the log, after they have changed.
void log_memory_as_set();

// Not 0 while anybody wants to know of allocations.
extern std::atomic<int> g_observers;

// Notes what has happened; for the functions below.
void observe(HistoryEvent::Action action, const Block* block);
// Notes that memory was short.
void note_out_of_memory(std::size_t bytes);

// Notes that the block has become a tensor's.
inline void note_allocated(const Block* block) {
  if (C10_UNLIKELY(g_observers.load(std::memory_order_relaxed) != 0)) {
    observe(HistoryEvent::Action::Allocate, block);
  }
}
// Notes that the tensor has given it up; the block is still its.
inline void note_freed(const Block* block) {
  if (C10_UNLIKELY(g_observers.load(std::memory_order_relaxed) != 0)) {
    observe(HistoryEvent::Action::Free, block);
  }
}

}  // namespace hpu_reference::memory
