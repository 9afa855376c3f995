#include "runtime/queue.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/error_context.h"
#include "runtime/fork.h"
#include "runtime/gil.h"
#include "runtime/lock_order.h"
#include "runtime/stream.h"
#include "runtime/stream_gate.h"

namespace hpu_reference::runtime {

std::atomic<std::int64_t> g_pending_work{0};

namespace {

struct Queue {
  std::deque<std::unique_ptr<Work>> items;
  bool running = false;
  bool sleeping = false;  // its thread waits for work
  std::thread thread;     // runs items that do not compute: waits, delays, transfers
  Condition wake;
  std::exception_ptr error;
  std::atomic<bool> failed{false};       // an error is stored
  std::atomic<std::uint64_t> issued{0};  // written under the mutex, like `done`
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::int64_t> pending{0};
  std::uint64_t last_item_end =
      0;  // when its last item ended, on the trace clock; only while a trace is recorded
};

// Never destroyed: work may be released during static destruction.
struct Scheduler {
  RankedMutex<LockRank::Leaf> mutex;
  RankedMutex<LockRank::Compute> compute;
  Condition changed;
  int waiting = 0;  // number of threads that wait for `changed`
  // Runs the computing items of all queues. One thread only, because each computing thread creates its own
  // team of OpenMP threads.
  std::thread compute_thread;
  Condition compute_wake;
  bool computer_sleeps = false;
  std::array<Queue, kQueues + kExclusiveQueues> queues;
  std::atomic<int> used{kQueues};  // number of queues that were ever used
  std::vector<int> released;       // exclusive queues without an owner
  // Work that a host thread must release; counted in the pending-work flag.
  std::vector<std::unique_ptr<Work>> finished;
  std::atomic<std::int64_t> pending{0};  // number of items of all queues that have not run
  bool stopping = false;
  QueueCounters counters;
};

Scheduler& scheduler() {
  static auto* value = new Scheduler();
  return *value;
}

thread_local bool tls_running = false;

std::atomic<bool> g_pipeline{true};
std::atomic<int> g_delay{-1};
std::mt19937_64 g_delays;  // guarded by the scheduler's mutex

using Lock = std::unique_lock<RankedMutex<LockRank::Leaf>>;

void wait_for_change(Scheduler& self, Lock& lock) {
  self.waiting++;
  self.changed.wait(lock);
  self.waiting--;
}

// Stores an error. The pending-work flag counts it, so that the next reader of data checks for it.
void store_queue_error(Queue& queue, const std::exception_ptr& error) {
  if (queue.error == nullptr) {
    queue.error = error;
    queue.failed.store(true, std::memory_order_release);
    g_pending_work.fetch_add(1, std::memory_order_release);
  }
}

// The kinds of items that a thread runs. A host thread that waits runs all kinds.
enum class ItemKinds { Compute, NotComputing, All };

// Wakes the thread that runs the first item of a queue, unless it is awake.
void wake_for_first(Scheduler& self, Queue& queue) {
  if (queue.running || queue.items.empty()) {
    return;
  }
  if (!queue.items.front()->uses_intraop_threads()) {
    if (queue.sleeping) {
      queue.wake.notify_one();
    }
  } else if (self.computer_sleeps) {
    self.compute_wake.notify_one();
  }
}

// A start time before any recording, for add_trace_row(). It is not 0, because 0 means a row without
// duration.
constexpr std::uint64_t kBeforeRecordings = 1;

// Adds the trace row of an item whose own code adds no trace rows. The row of a wait begins when the wait
// becomes the first item of its queue.
void trace_item(Queue& queue, int index, const Work& work) {
  const TraceKind kind = work.trace_kind();
  if (kind != TraceKind::None) {
    const bool waits = kind == TraceKind::Wait;
    add_trace_row(kind,
                  work.name(),
                  index,
                  waits ? std::max({work.origin.issued, queue.last_item_end, kBeforeRecordings}) : 0);
  }
  queue.last_item_end = trace_clock();
}

// Runs the first item of a queue if it is ready and of the given kind; returns false otherwise. Returns with
// the lock held.
bool run_one(Scheduler& self, int index, Lock& lock, ItemKinds runs) {
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  if (queue.running || queue.items.empty() || self.stopping || !queue.items.front()->is_ready() ||
      (runs != ItemKinds::All &&
       (runs == ItemKinds::Compute) != queue.items.front()->uses_intraop_threads())) {
    return false;
  }
  std::unique_ptr<Work> work = std::move(queue.items.front());
  queue.items.pop_front();
  queue.running = true;
  lock.unlock();
  std::exception_ptr error;
  {
    const ThreadState before = ThreadState::current();
    const bool nested = tls_running;
    tls_running = true;
    const c10::StreamId stream = exchange_stream_without_flush(index);
    const CorrelationScope correlated(work->origin.correlation);
    try {
      if (work->uses_intraop_threads()) {
        const std::lock_guard compute(self.compute);
        work->state.apply();
        work->run();
      } else {
        work->run();
      }
    } catch (...) {
      error = add_origin_to_error(std::current_exception(), work->name(), index);
    }
    if (is_tracing()) {
      trace_item(queue, index, *work);
    }
    exchange_stream_without_flush(stream);
    tls_running = nested;
    before.apply();
  }
  if (!work->must_be_destroyed_on_host()) {
    work.reset();
  }
  lock.lock();
  if (work != nullptr) {
    self.finished.push_back(std::move(work));
    g_pending_work.fetch_add(1, std::memory_order_release);  // the next call on the host releases the work
  }
  if (error != nullptr) {
    store_queue_error(queue, error);
  }
  queue.running = false;
  queue.done++;
  queue.pending.fetch_sub(1, std::memory_order_release);
  self.pending.fetch_sub(1, std::memory_order_release);
  g_pending_work.fetch_sub(1, std::memory_order_release);
  if (self.waiting > 0) {
    self.changed.notify_all();
  }
  wake_for_first(self, queue);  // this thread may be a host thread that runs no further item
  return true;
}

// Wakes the threads of the queues that wait for this queue.
void wake_waiting_queues(Scheduler& self, int index) {
  const int used = self.used;
  for (int other_index = 0; other_index < used; other_index++) {
    Queue& queue = self.queues[static_cast<std::size_t>(other_index)];
    if (other_index != index) {
      wake_for_first(self, queue);
    }
  }
}

void work_loop(int index) {
  Scheduler& self = scheduler();
  pthread_setname_np(pthread_self(), ("hpu-stream-" + std::to_string(index)).c_str());
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  Lock lock(self.mutex);
  while (!self.stopping) {
    if (run_one(self, index, lock, ItemKinds::NotComputing)) {
      wake_waiting_queues(self, index);
      continue;
    }
    queue.sleeping = true;
    queue.wake.wait(lock);
    queue.sleeping = false;
  }
}

// Visits the queues in turn and runs one item of each, so that no stream blocks another.
void compute_loop() {
  Scheduler& self = scheduler();
  pthread_setname_np(pthread_self(), "hpu-compute");
  Lock lock(self.mutex);
  while (!self.stopping) {
    bool any = false;
    for (int index = 0; index < self.used && !self.stopping; index++) {
      if (run_one(self, index, lock, ItemKinds::Compute)) {
        wake_waiting_queues(self, index);
        any = true;
      }
    }
    if (!any && !self.stopping) {
      self.computer_sleeps = true;
      self.compute_wake.wait(lock);
      self.computer_sleeps = false;
    }
  }
}

// Destroys finished work without the lock: the work may drop the last reference to a tensor, which may take
// the GIL.
void release_finished(Scheduler& self, Lock& lock) {
  if (self.finished.empty() || tls_running) {
    return;
  }
  std::vector<std::unique_ptr<Work>> finished = std::move(self.finished);
  self.finished.clear();
  g_pending_work.fetch_sub(static_cast<std::int64_t>(finished.size()), std::memory_order_release);
  lock.unlock();
  finished.clear();
  lock.lock();
}

// Makes some progress on the queue: runs the queue's first item, or an item of another queue that blocks this
// first item. If neither is possible, waits.
void help_run_items(Scheduler& self, int index, Lock& lock) {
  int target = index;
  for (int hops = 0; hops < self.used; hops++) {
    if (run_one(self, target, lock, ItemKinds::All)) {
      self.counters.taken_over++;
      wake_waiting_queues(self, target);
      return;
    }
    const Queue& queue = self.queues[static_cast<std::size_t>(target)];
    const int blocker = queue.running || queue.items.empty() ? -1 : queue.items.front()->blocked_by();
    if (blocker < 0 || blocker == target) {
      break;
    }
    target = blocker;
  }
  wait_for_change(self, lock);
}

// Blocks a queue until another queue reaches a mark.
class MarkWait final : public Work {
 public:
  explicit MarkWait(const QueueMark& mark) : mark_(mark) {
  }
  void run() override {
  }
  bool is_ready() const override {
    return is_reached(mark_);
  }
  int blocked_by() const override {
    return mark_.queue;
  }
  bool uses_intraop_threads() const override {
    return false;
  }
  std::string name() const override {
    return "a wait for memory that another stream uses";
  }
  TraceKind trace_kind() const override {
    return TraceKind::Wait;
  }

 private:
  const QueueMark mark_;
};

void drain_queue(int index) {
  require_at_most(LockRank::Recorder, "waits for a stream");
  Scheduler& self = scheduler();
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  std::uint64_t goal;
  {
    const Lock lock(self.mutex);
    goal = queue.issued;
    if (queue.done >= goal || self.stopping) {
      return;
    }
  }
  const DefaultThreadState default_state;
  const GilRelease unlocked;
  Lock lock(self.mutex);
  while (queue.done < goal && !self.stopping) {
    help_run_items(self, index, lock);
  }
}

// Starts the thread that runs the queue's computing or other work, if the thread does not run yet. The new
// thread waits for the lock.
void start_thread(Scheduler& self, int index, bool computes) {
  std::thread& thread = computes ? self.compute_thread : self.queues[static_cast<std::size_t>(index)].thread;
  if (thread.joinable()) {
    return;
  }
  try {
    thread = computes ? std::thread(compute_loop) : std::thread(work_loop, index);
  } catch (const std::system_error& error) {
    TORCH_CHECK(false,
                "the device cannot start a thread for its queues (",
                error.what(),
                "); allow the process more threads or memory, or set PT_HPU_EAGER_PIPELINE_ENABLE=0");
  }
  self.counters.workers++;
}

// Appends the work. If push_item() throws, the caller still owns the work and destroys it without the lock.
void push_item(Scheduler& self, int index, std::unique_ptr<Work>&& work) {
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  const bool computes = work->uses_intraop_threads();
  // Work that waits for another process must not block the thread that computes for all queues.
  TORCH_INTERNAL_ASSERT(index < kQueues || !computes, work->name(), " computes on an exclusive stream");
  start_thread(self, index, computes);  // first, because it may throw
  queue.items.push_back(std::move(work));
  queue.issued++;
  queue.pending.fetch_add(1, std::memory_order_relaxed);
  self.pending.fetch_add(1, std::memory_order_relaxed);
  g_pending_work.fetch_add(1, std::memory_order_release);
  self.counters.queued++;
  wake_for_first(self, queue);
}

std::exception_ptr take_error(Queue& queue) {
  std::exception_ptr error = std::move(queue.error);
  queue.error = nullptr;
  if (error != nullptr) {
    queue.failed.store(false, std::memory_order_release);
    g_pending_work.fetch_sub(1, std::memory_order_release);
  }
  return error;
}

}  // namespace

int queue_of(c10::StreamId id) {
  if (C10_UNLIKELY(id >= kFirstExclusiveStream)) {
    return kQueues + static_cast<int>(id - kFirstExclusiveStream);
  }
  return id == kDefaultStream ? 0 : static_cast<int>(1 + (id - 1) % (kQueues - 1));
}

c10::StreamId acquire_exclusive_stream() {
  Scheduler& self = scheduler();
  const Lock lock(self.mutex);
  for (auto index_position = self.released.begin(); index_position != self.released.end(); ++index_position) {
    const int index = *index_position;
    if (self.queues[static_cast<std::size_t>(index)].pending.load() == 0) {
      self.released.erase(index_position);
      return kFirstExclusiveStream + index - kQueues;
    }
  }
  TORCH_CHECK(self.used < kQueues + kExclusiveQueues,
              "all ",
              kExclusiveQueues,
              " exclusive streams of the device are taken: destroy process groups that are no longer needed");
  return kFirstExclusiveStream + (self.used++) - kQueues;
}

void release_exclusive_stream(c10::StreamId id) {
  Scheduler& self = scheduler();
  const Lock lock(self.mutex);
  self.released.push_back(queue_of(id));
}

bool is_running_work() {
  return tls_running;
}

bool is_reached(const QueueMark& mark) {
  const Queue& queue = scheduler().queues[static_cast<std::size_t>(mark.queue)];
  return queue.done.load(std::memory_order_acquire) >= mark.number;
}

QueueMark mark_of_queue_end(c10::StreamId id) {
  const int index = queue_of(id);
  return {index, scheduler().queues[static_cast<std::size_t>(index)].issued.load(std::memory_order_acquire)};
}

QueueMark enqueue(c10::StreamId id, std::unique_ptr<Work> work, const std::vector<QueueMark>& after) {
  acquire();
  work->state = ThreadState::current();
  if (is_tracing()) {
    work->origin = current_origin();
  }
  const int index = queue_of(id);
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  if (self.stopping) {
    lock.unlock();
    if (work->is_ready()) {  // at exit no work is blocked any more
      work->run();
    }
    return {};
  }
  for (const QueueMark& mark : after) {
    if (mark.queue != index && !is_reached(mark)) {
      auto wait = std::make_unique<MarkWait>(mark);
      wait->origin = work->origin;
      push_item(self, index, std::move(wait));
    }
  }
  const int delay = g_delay;
  if (delay > 0 && work->uses_intraop_threads()) {
    auto pause = make_delay(static_cast<double>(g_delays() % static_cast<unsigned>(delay)) * 1e-6);
    pause->origin = work->origin;
    push_item(self, index, std::move(pause));
  }
  push_item(self, index, std::move(work));
  return {index, self.queues[static_cast<std::size_t>(index)].issued};
}

bool has_pending_work() {
  return scheduler().pending.load(std::memory_order_acquire) != 0;
}

bool is_queue_idle(c10::StreamId id) {
  return scheduler().queues[static_cast<std::size_t>(queue_of(id))].pending.load(std::memory_order_acquire) ==
         0;
}

void help_until(int queue, const std::function<bool()>& done) {
  require_at_most(LockRank::Recorder, "waits for a stream");
  Scheduler& self = scheduler();
  {
    const Lock lock(self.mutex);
    if (done() || self.stopping) {
      return;
    }
  }
  const DefaultThreadState default_state;
  const GilRelease unlocked;
  Lock lock(self.mutex);
  while (!done() && !self.stopping) {
    help_run_items(self, queue, lock);
  }
}

void wait_for(const QueueMark& mark) {
  if (!is_reached(mark)) {
    help_until(mark.queue, [&] { return is_reached(mark); });
  }
}

bool wait_until(const std::function<bool()>& done, std::chrono::microseconds timeout) {
  const GilRelease unlocked;
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  self.waiting++;
  const bool in_time = self.changed.wait_for(lock, timeout, [&] { return done() || self.stopping; });
  self.waiting--;
  return in_time;
}

void release_finished_work() {
  require_at_most(LockRank::Recorder, "destroys Python objects");
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  release_finished(self, lock);
}

void store_error(int queue, std::exception_ptr error, const std::string& name) {
  const std::exception_ptr full = add_origin_to_error(std::move(error), name, queue);
  Scheduler& self = scheduler();
  const Lock lock(self.mutex);
  store_queue_error(self.queues[static_cast<std::size_t>(queue)], full);
}

void drain(c10::StreamId id, bool throw_errors) {
  if (tls_running) {
    return;
  }
  const int index = queue_of(id);
  drain_queue(index);
  if (throw_errors) {
    throw_queue_error(index);
  }
}

bool has_error(int queue) {
  return scheduler().queues[static_cast<std::size_t>(queue)].failed.load(std::memory_order_acquire);
}

void throw_queue_error(int index) {
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  std::exception_ptr error = take_error(self.queues[static_cast<std::size_t>(index)]);
  lock.unlock();
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
}

void drain_all(bool throw_errors) {
  if (tls_running) {
    return;
  }
  const int used = scheduler().used;
  for (int index = 0; index < used; index++) {
    drain_queue(index);
  }
  if (!throw_errors) {
    return;
  }
  for (int index = 0; index < used; index++) {
    throw_queue_error(index);
  }
}

void notify_queues() {
  Scheduler& self = scheduler();
  const std::lock_guard lock(self.mutex);
  wake_waiting_queues(self, -1);
  self.changed.notify_all();
}

bool is_pipeline_enabled() {
  return g_pipeline;
}

void set_pipeline_enabled(bool on) {
  g_pipeline = on;
}

void set_queue_all(int microseconds, std::uint64_t seed) {
  Scheduler& self = scheduler();
  const std::lock_guard lock(self.mutex);
  const bool before = g_delay >= 0;
  g_delay = microseconds;
  g_delays.seed(seed);
  g_pending_work.fetch_add((microseconds >= 0 ? 1 : 0) - (before ? 1 : 0));
}

bool is_queue_all() {
  return g_delay >= 0;
}

void shutdown_queues() {
  if (is_forked_child()) {
    return;
  }
  Scheduler& self = scheduler();
  g_pipeline = false;
  {
    Lock lock(self.mutex);
    self.stopping = true;
    for (Queue& queue : self.queues) {
      queue.wake.notify_all();
    }
    self.compute_wake.notify_all();
    self.changed.notify_all();
  }
  if (self.compute_thread.joinable() && self.compute_thread.get_id() != std::this_thread::get_id()) {
    self.compute_thread.join();
  }
  for (std::size_t index = 0; index < self.queues.size(); index++) {
    Queue& queue = self.queues[index];
    if (!queue.thread.joinable() || queue.thread.get_id() == std::this_thread::get_id()) {
      continue;
    }
    // Detach the thread of an exclusive stream if its work still runs, because the work may wait forever for
    // another process. Join all other threads.
    bool abandon = false;
    if (index >= kQueues) {
      const Lock lock(self.mutex);
      abandon = queue.running;
    }
    abandon ? queue.thread.detach() : queue.thread.join();
  }
  std::vector<std::unique_ptr<Work>> dropped;
  {
    Lock lock(self.mutex);
    for (Queue& queue : self.queues) {
      for (auto& item : queue.items) {
        dropped.push_back(std::move(item));
      }
      g_pending_work.fetch_sub(static_cast<std::int64_t>(queue.items.size()));
      queue.pending.fetch_sub(static_cast<std::int64_t>(queue.items.size()));
      self.pending.fetch_sub(static_cast<std::int64_t>(queue.items.size()));
      queue.done += queue.items.size();
      queue.items.clear();
    }
    g_pending_work.fetch_sub(static_cast<std::int64_t>(self.finished.size()));
    for (auto& item : self.finished) {
      dropped.push_back(std::move(item));
    }
    self.finished.clear();
  }
}

QueueCounters queue_counters() {
  Scheduler& self = scheduler();
  const std::lock_guard lock(self.mutex);
  QueueCounters result = self.counters;
  for (const Queue& queue : self.queues) {
    result.pending += queue.pending.load();
  }
  return result;
}

}  // namespace hpu_reference::runtime
