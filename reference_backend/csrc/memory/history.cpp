#include "memory/history.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <deque>
#include <mutex>
#include <unordered_map>

#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "runtime/log.h"
#include "runtime/queue.h"

namespace hpu_reference::memory {

std::atomic<int> g_observers{0};

namespace {

std::atomic<bool> g_history{false};

struct History {
  runtime::RankedMutex<runtime::LockRank::Leaf> mutex;
  HistorySettings settings;
  std::deque<HistoryEvent> events;
  std::int64_t dropped = 0;
  std::unordered_map<std::uintptr_t, Stack> stacks;  // stacks of live blocks, by address
  OutOfMemoryObserver observer;
  std::string metadata;
};

// Never destroyed: tensors may outlive static destruction.
History& history() {
  static auto* value = new History();
  return *value;
}

// Returns the stack of the calling thread. Returns null on a thread that runs queued work: such a thread has
// no Python stack and must not wait for the GIL.
Stack stack_here(bool native) {
  if (runtime::is_running_work()) {
    return nullptr;
  }
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, native);
}

std::int64_t microseconds_since_epoch() {
  return c10::getTime() / 1000;
}

// Appends the event under the mutex. Moves dropped stacks to `dropped`, to be destroyed without the mutex.
void append(History& self, HistoryEvent&& event, std::vector<Stack>& dropped) {
  event.metadata = self.metadata;
  self.events.push_back(std::move(event));
  while (self.events.size() > self.settings.limit) {
    dropped.push_back(std::move(self.events.front().stack));
    self.events.pop_front();
    self.dropped++;
  }
}

HistorySettings settings() {
  History& self = history();
  const std::lock_guard lock(self.mutex);
  return self.settings;
}

void record(HistoryEvent::Action action, const Block* block) {
  using Action = HistoryEvent::Action;
  const HistorySettings requested = settings();
  const bool allocates = action == Action::Allocate;
  Stack stack;
  if (allocates ? requested.allocation_frames : requested.free_frames) {
    stack = stack_here(requested.native_frames);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(block->device);
  std::vector<Stack> dropped;
  History& self = history();
  {
    const std::lock_guard lock(self.mutex);
    if (allocates) {
      self.stacks[address] = stack;
    } else if (const auto entry = self.stacks.find(address); entry != self.stacks.end()) {
      dropped.push_back(std::move(entry->second));
      self.stacks.erase(entry);
    }
    if (self.settings.events) {
      append(self,
             {action,
              address,
              static_cast<std::int64_t>(block->size),
              block->stream,
              microseconds_since_epoch(),
              0,
              {},
              stack},
             dropped);
    }
  }
}

void log_event(HistoryEvent::Action action, const Block* block) {
  using runtime::LogLevel;
  using runtime::LogModule;
  const bool allocates = action == HistoryEvent::Action::Allocate;
  runtime::log(LogModule::DevMem,
               LogLevel::Debug,
               allocates ? "allocated " : "freed ",
               block->size,
               " bytes at ",
               static_cast<const void*>(block->device),
               ", stream ",
               block->stream);
  if (runtime::is_logged(LogModule::MemLog, LogLevel::Debug)) {
    const PoolStatistics stats = pool().statistics();
    const std::int64_t freed = allocates ? 0 : static_cast<std::int64_t>(block->size);
    runtime::log(LogModule::MemLog, LogLevel::Debug, stats.in_use - freed, " bytes in use");
  }
}

}  // namespace

void set_history(const HistorySettings& requested, bool clear) {
  std::deque<HistoryEvent> events;
  std::unordered_map<std::uintptr_t, Stack> stacks;
  History& self = history();
  const std::lock_guard lock(self.mutex);
  self.settings = requested;
  if (clear || !requested.events) {
    events.swap(self.events);
    self.dropped = 0;
  }
  if (!requested.blocks) {
    stacks.swap(self.stacks);
  }
  const bool on = requested.blocks || requested.events;
  if (g_history.exchange(on) != on) {
    g_observers.fetch_add(on ? 1 : -1);
  }
}

void change_profiler_count(int by) {
  g_observers.fetch_add(by);
}

void update_logged_memory() {
  static std::atomic<bool> counted{false};
  const bool requested = runtime::is_logged(runtime::LogModule::DevMem, runtime::LogLevel::Debug) ||
                         runtime::is_logged(runtime::LogModule::MemLog, runtime::LogLevel::Debug);
  if (counted.exchange(requested) != requested) {
    g_observers.fetch_add(requested ? 1 : -1);
  }
}

bool has_history() {
  return g_history;
}

Snapshot take_snapshot() {
  Snapshot snapshot;
  const std::vector<BlockState> blocks = is_ready() ? pool().blocks() : std::vector<BlockState>();
  const HistorySettings requested = settings();
  Stack stack =
      requested.events && requested.allocation_frames ? stack_here(requested.native_frames) : nullptr;
  std::vector<Stack> dropped;
  History& self = history();
  const std::lock_guard lock(self.mutex);
  if (self.settings.events) {
    append(self,
           {HistoryEvent::Action::Snapshot, 0, 0, 0, microseconds_since_epoch(), 0, {}, std::move(stack)},
           dropped);
  }
  for (const BlockState& block : blocks) {
    const auto entry = self.stacks.find(block.address);
    snapshot.blocks.push_back({block, block.in_use && entry != self.stacks.end() ? entry->second : nullptr});
  }
  snapshot.events.assign(self.events.begin(), self.events.end());
  snapshot.dropped = self.dropped;
  return snapshot;
}

void set_metadata(const std::string& text) {
  History& self = history();
  const std::lock_guard lock(self.mutex);
  self.metadata = text;
}

std::string metadata() {
  History& self = history();
  const std::lock_guard lock(self.mutex);
  return self.metadata;
}

void set_out_of_memory_observer(OutOfMemoryObserver observer) {
  History& self = history();
  const std::lock_guard lock(self.mutex);
  self.observer.swap(observer);
}

void record_history_event(HistoryEvent::Action action, const Block* block) {
  log_event(action, block);
  if (g_history.load(std::memory_order_relaxed)) {
    record(action, block);
  }
  if (c10::memoryProfilingEnabled()) {
    const PoolStatistics stats = pool().statistics();
    const auto bytes = static_cast<std::int64_t>(block->size);
    const bool allocates = action == HistoryEvent::Action::Allocate;
    c10::reportMemoryUsageToProfiler(
        block->device,
        allocates ? bytes : -bytes,
        static_cast<std::size_t>(allocates ? stats.in_use : stats.in_use - bytes),
        static_cast<std::size_t>(stats.limit),
        runtime::kDevice);
  }
}

void record_out_of_memory(std::size_t bytes) {
  const PoolStatistics stats = pool().statistics();
  const auto requested = static_cast<std::int64_t>(bytes);
  runtime::log(runtime::LogModule::DevMem,
               runtime::LogLevel::Error,
               "no memory for ",
               bytes,
               " bytes: ",
               stats.in_use,
               " in use of a limit of ",
               stats.limit,
               ", the largest free range has ",
               stats.largest_free);
  if (c10::memoryProfilingEnabled()) {
    c10::reportOutOfMemoryToProfiler(requested,
                                     static_cast<std::size_t>(stats.in_use),
                                     static_cast<std::size_t>(stats.limit),
                                     runtime::kDevice);
  }
  const HistorySettings recorded = settings();
  Stack stack;
  if (recorded.events && recorded.allocation_frames) {
    stack = stack_here(recorded.native_frames);
  }
  OutOfMemoryObserver observer;
  std::vector<Stack> dropped;
  {
    History& self = history();
    const std::lock_guard lock(self.mutex);
    if (self.settings.events) {
      append(self,
             {HistoryEvent::Action::OutOfMemory,
              0,
              requested,
              runtime::current_stream_id(),
              microseconds_since_epoch(),
              stats.limit - stats.in_use,
              {},
              std::move(stack)},
             dropped);
    }
    observer = self.observer;
  }
  // Allocations of the observer are host memory. If the observer itself runs short of memory, it is not
  // called again.
  thread_local bool observing = false;
  if (observer && !observing && !runtime::is_running_work()) {
    const AllocationRedirect off(false);
    observing = true;
    try {
      observer(requested, stats.in_use, stats.limit);
    } catch (...) {
      observing = false;
      throw;
    }
    observing = false;
  }
}

}  // namespace hpu_reference::memory
