#include "memory/history.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <deque>
#include <mutex>
#include <unordered_map>

#include "memory/allocator.h"
#include "memory/allocation_redirect.h"
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
  std::unordered_map<std::uintptr_t, Stack> stacks;  // of live blocks
  OutOfMemoryObserver observer;
  std::string metadata;
};

// Never destroyed: tensors may outlive static destruction.
History& history() {
  static auto* value = new History();
  return *value;
}

// The stack of the calling thread. A thread that runs queued work has none of the program's, and must not
// wait for the interpreter.
Stack stack_here(bool native) {
  if (runtime::is_running_work()) {
    return nullptr;
  }
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, native);
}

std::int64_t now() {
  return c10::getTime() / 1000;
}

// Appends under the mutex; gives back what is dropped, to be destroyed without it.
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
  const HistorySettings wanted = settings();
  const bool allocates = action == Action::Allocate;
  Stack stack;
  if (allocates ? wanted.allocation_frames : wanted.free_frames) {
    stack = stack_here(wanted.native_frames);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(block->device);
  std::vector<Stack> dropped;
  History& self = history();
  {
    const std::lock_guard lock(self.mutex);
    if (allocates) {
      self.stacks[address] = stack;
    } else if (const auto known = self.stacks.find(address); known != self.stacks.end()) {
      dropped.push_back(std::move(known->second));
      self.stacks.erase(known);
    }
    if (self.settings.events) {
      append(self,
             {action, address, static_cast<std::int64_t>(block->size), block->stream, now(), 0, {}, stack},
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

void set_history(const HistorySettings& wanted, bool clear) {
  std::deque<HistoryEvent> events;
  std::unordered_map<std::uintptr_t, Stack> stacks;
  History& self = history();
  const std::lock_guard lock(self.mutex);
  self.settings = wanted;
  if (clear || !wanted.events) {
    events.swap(self.events);
    self.dropped = 0;
  }
  if (!wanted.blocks) {
    stacks.swap(self.stacks);
  }
  const bool on = wanted.blocks || wanted.events;
  if (g_history.exchange(on) != on) {
    g_observers.fetch_add(on ? 1 : -1);
  }
}

void count_profilers(int change) {
  g_observers.fetch_add(change);
}

void log_memory_as_set() {
  static std::atomic<bool> counted{false};
  const bool wanted = runtime::is_logged(runtime::LogModule::DevMem, runtime::LogLevel::Debug) ||
                      runtime::is_logged(runtime::LogModule::MemLog, runtime::LogLevel::Debug);
  if (counted.exchange(wanted) != wanted) {
    g_observers.fetch_add(wanted ? 1 : -1);
  }
}

bool has_history() {
  return g_history;
}

Snapshot take_snapshot() {
  Snapshot snapshot;
  const std::vector<BlockState> blocks = is_ready() ? pool().blocks() : std::vector<BlockState>();
  const HistorySettings wanted = settings();
  Stack stack = wanted.events && wanted.allocation_frames ? stack_here(wanted.native_frames) : nullptr;
  std::vector<Stack> dropped;
  History& self = history();
  const std::lock_guard lock(self.mutex);
  if (self.settings.events) {
    append(self, {HistoryEvent::Action::Snapshot, 0, 0, 0, now(), 0, {}, std::move(stack)}, dropped);
  }
  for (const BlockState& block : blocks) {
    const auto known = self.stacks.find(block.address);
    snapshot.blocks.push_back({block, block.in_use && known != self.stacks.end() ? known->second : nullptr});
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

void observe(HistoryEvent::Action action, const Block* block) {
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

void note_out_of_memory(std::size_t bytes) {
  const PoolStatistics stats = pool().statistics();
  const auto wanted = static_cast<std::int64_t>(bytes);
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
    c10::reportOutOfMemoryToProfiler(wanted,
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
              wanted,
              runtime::current_stream_id(),
              now(),
              stats.limit - stats.in_use,
              {},
              std::move(stack)},
             dropped);
    }
    observer = self.observer;
  }
  // What the observer allocates on the host is the host's, and a shortage of its own does not call it again.
  thread_local bool observing = false;
  if (observer && !observing && !runtime::is_running_work()) {
    const HostDetour off(false);
    observing = true;
    try {
      observer(wanted, stats.in_use, stats.limit);
    } catch (...) {
      observing = false;
      throw;
    }
    observing = false;
  }
}

}  // namespace hpu_reference::memory
