#include "runtime/queue.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <immintrin.h>
#include <pthread.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/fork.h"
#include "runtime/interpreter.h"
#include "runtime/stream.h"

// From the OpenMP runtime that torch loads: it sets the number of threads of the calling thread only, whereas
// at::set_num_threads() would change the process's.
extern "C" void omp_set_num_threads(int);

namespace hpu_reference::runtime {

std::atomic<std::int64_t> g_attention{0};

namespace {

struct Queue {
  std::deque<std::unique_ptr<Work>> items;
  bool running = false;
  bool sleeping = false;  // its thread waits for work
  std::thread thread;
  std::condition_variable wake;
  std::exception_ptr error;
  std::uint64_t issued = 0;
  std::uint64_t done = 0;
  std::atomic<std::int64_t> pending{0};
};

// Never destroyed: work may be released during static destruction.
struct Scheduler {
  std::mutex mutex;
  std::mutex compute;
  std::condition_variable changed;
  int waiting = 0;  // threads that wait for `changed`
  std::array<Queue, kQueues + kExclusiveQueues> queues;
  std::atomic<int> used{kQueues};               // queues that were ever handed out
  std::vector<int> released;                    // exclusive queues without an owner
  std::vector<std::unique_ptr<Work>> finished;  // to be released on a host thread
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

using Lock = std::unique_lock<std::mutex>;

void wait_for_change(Scheduler& self, Lock& lock) {
  self.waiting++;
  self.changed.wait(lock);
  self.waiting--;
}

// The same error with the operator that caused it.
std::exception_ptr named(std::exception_ptr given, const std::string& name, int queue) {
  const std::string context = "(found when " + name + " ran, queued on stream " + std::to_string(queue) + ")";
  try {
    std::rethrow_exception(std::move(given));
  } catch (c10::Error& error) {
    error.add_context(context);
    return std::current_exception();
  } catch (const std::exception& error) {
    return std::make_exception_ptr(std::runtime_error(error.what() + (" " + context)));
  } catch (...) {
    return std::make_exception_ptr(std::runtime_error("unknown error " + context));
  }
}

// An error counts as attention, so that the next reader of data looks for it.
void keep_error(Queue& queue, std::exception_ptr error) {
  if (queue.error == nullptr) {
    queue.error = std::move(error);
    g_attention.fetch_add(1, std::memory_order_release);
  }
}

// Runs the first item of a queue that is ready; false if there is none to run. The lock is held on return.
bool run_one(Scheduler& self, int index, Lock& lock) {
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  if (queue.running || queue.items.empty() || self.stopping || !queue.items.front()->ready()) {
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
    const c10::StreamId stream = exchange_stream_quietly(index);
    try {
      if (work->computes()) {
        const std::lock_guard<std::mutex> compute(self.compute);
        work->state.apply();
        work->run();
      } else {
        work->run();
      }
    } catch (...) {
      error = named(std::current_exception(), work->name(), index);
    }
    exchange_stream_quietly(stream);
    tls_running = nested;
    before.apply();
  }
  if (!work->released_on_host()) {
    work.reset();
  }
  lock.lock();
  if (work != nullptr) {
    self.finished.push_back(std::move(work));
  }
  if (error != nullptr) {
    keep_error(queue, error);
  }
  queue.running = false;
  queue.done++;
  queue.pending.fetch_sub(1, std::memory_order_release);
  g_attention.fetch_sub(1, std::memory_order_release);
  if (self.waiting > 0) {
    self.changed.notify_all();
  }
  if (!queue.items.empty() && queue.sleeping) {
    queue.wake.notify_one();  // a thread that only helped may stop here
  }
  return true;
}

// Progress of one queue wakes the threads of the queues that wait for it.
void wake_others(Scheduler& self, int index) {
  const int used = self.used;
  for (int other = 0; other < used; other++) {
    Queue& queue = self.queues[static_cast<std::size_t>(other)];
    if (other != index && queue.sleeping && !queue.items.empty()) {
      queue.wake.notify_one();
    }
  }
}

void work_loop(int index) {
  Scheduler& self = scheduler();
  pthread_setname_np(pthread_self(), ("hpu-stream-" + std::to_string(index)).c_str());
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  Lock lock(self.mutex);
  while (!self.stopping) {
    if (run_one(self, index, lock)) {
      wake_others(self, index);
      continue;
    }
    queue.sleeping = true;
    queue.wake.wait(lock);
    queue.sleeping = false;
  }
}

void release_finished(Scheduler& self, Lock& lock) {
  if (self.finished.empty() || tls_running) {
    return;
  }
  std::vector<std::unique_ptr<Work>> finished = std::move(self.finished);
  self.finished.clear();
  lock.unlock();
  finished.clear();
  lock.lock();
}

// Lets the queue move on a little: runs its first item, or one of the queue that it waits for, or waits.
void help(Scheduler& self, int index, Lock& lock) {
  int target = index;
  for (int hops = 0; hops < self.used; hops++) {
    if (run_one(self, target, lock)) {
      self.counters.taken_over++;
      wake_others(self, target);
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

class Delay final : public Work {
 public:
  explicit Delay(double seconds) : seconds_(seconds) {
  }
  void run() override {
    Scheduler& self = scheduler();
    Lock lock(self.mutex);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
    self.waiting++;
    self.changed.wait_until(lock, end, [&] { return self.stopping; });
    self.waiting--;
  }
  bool computes() const override {
    return false;
  }
  std::string name() const override {
    return "a delay";
  }

 private:
  double seconds_;
};

class GateWork final : public Work {
 public:
  explicit GateWork(std::shared_ptr<std::atomic<bool>> open) : open_(std::move(open)) {
  }
  void run() override {
  }
  bool ready() const override {
    return *open_;
  }
  bool computes() const override {
    return false;
  }
  std::string name() const override {
    return "a gate";
  }

 private:
  std::shared_ptr<std::atomic<bool>> open_;
};

void drain_queue(int index) {
  const InterpreterRelease unlocked;
  Scheduler& self = scheduler();
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  Lock lock(self.mutex);
  const std::uint64_t goal = queue.issued;
  while (queue.done < goal && !self.stopping) {
    help(self, index, lock);
  }
}

void push(Scheduler& self, int index, std::unique_ptr<Work> work) {
  Queue& queue = self.queues[static_cast<std::size_t>(index)];
  queue.items.push_back(std::move(work));
  queue.issued++;
  queue.pending.fetch_add(1, std::memory_order_relaxed);
  g_attention.fetch_add(1, std::memory_order_release);
  self.counters.queued++;
  if (!queue.thread.joinable()) {
    self.counters.workers++;
    queue.thread = std::thread(work_loop, index);
  } else if (queue.sleeping) {
    queue.wake.notify_one();
  }
}

std::exception_ptr take_error(Queue& queue) {
  std::exception_ptr error = std::move(queue.error);
  queue.error = nullptr;
  if (error != nullptr) {
    g_attention.fetch_sub(1, std::memory_order_release);
  }
  return error;
}

}  // namespace

ThreadState ThreadState::current() {
  return {at::get_num_threads(), _mm_getcsr()};
}

void ThreadState::apply() const {
  if (at::get_num_threads() != threads) {
    omp_set_num_threads(threads);
  }
  _mm_setcsr(rounding);
}

int queue_of(c10::StreamId id) {
  if (C10_UNLIKELY(id >= kFirstExclusiveStream)) {
    return kQueues + static_cast<int>(id - kFirstExclusiveStream);
  }
  return id == kDefaultStream ? 0 : static_cast<int>(1 + (id - 1) % (kQueues - 1));
}

c10::StreamId acquire_exclusive_stream() {
  Scheduler& self = scheduler();
  const Lock lock(self.mutex);
  for (auto found = self.released.begin(); found != self.released.end(); ++found) {
    const int index = *found;
    if (self.queues[static_cast<std::size_t>(index)].pending.load() == 0) {
      self.released.erase(found);
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

void enqueue(c10::StreamId id, std::unique_ptr<Work> work) {
  acquire();
  work->state = ThreadState::current();
  const int index = queue_of(id);
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  if (self.stopping) {
    lock.unlock();
    if (work->ready()) {  // at exit nothing is held back any more
      work->run();
    }
    return;
  }
  const int delay = g_delay;
  if (delay > 0 && work->computes()) {
    push(self,
         index,
         std::make_unique<Delay>(static_cast<double>(g_delays() % static_cast<unsigned>(delay)) * 1e-6));
  }
  push(self, index, std::move(work));
}

bool is_queue_idle(c10::StreamId id) {
  return scheduler().queues[static_cast<std::size_t>(queue_of(id))].pending.load(std::memory_order_acquire) ==
         0;
}

void help_until(int queue, const std::function<bool()>& done) {
  const InterpreterRelease unlocked;
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  while (!done() && !self.stopping) {
    help(self, queue, lock);
  }
}

bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) {
  const InterpreterRelease unlocked;
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  self.waiting++;
  const bool in_time = self.changed.wait_for(lock, timeout, [&] { return done() || self.stopping; });
  self.waiting--;
  return in_time;
}

void release_finished_work() {
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  release_finished(self, lock);
}

void store_error(int queue, std::exception_ptr error, const std::string& name) {
  std::exception_ptr full = named(std::move(error), name, queue);
  Scheduler& self = scheduler();
  const Lock lock(self.mutex);
  keep_error(self.queues[static_cast<std::size_t>(queue)], std::move(full));
}

void drain(c10::StreamId id, bool surface) {
  if (tls_running) {
    return;
  }
  const int index = queue_of(id);
  drain_queue(index);
  if (surface) {
    surface_error(index);
  }
}

void surface_error(int index) {
  Scheduler& self = scheduler();
  Lock lock(self.mutex);
  std::exception_ptr error = take_error(self.queues[static_cast<std::size_t>(index)]);
  lock.unlock();
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
}

void drain_all(bool surface) {
  if (tls_running) {
    return;
  }
  const int used = scheduler().used;
  for (int index = 0; index < used; index++) {
    drain_queue(index);
  }
  if (!surface) {
    return;
  }
  for (int index = 0; index < used; index++) {
    surface_error(index);
  }
}

void notify_queues() {
  Scheduler& self = scheduler();
  const std::lock_guard<std::mutex> lock(self.mutex);
  wake_others(self, -1);
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
  const std::lock_guard<std::mutex> lock(self.mutex);
  const bool before = g_delay >= 0;
  g_delay = microseconds;
  g_delays.seed(seed);
  g_attention.fetch_add((microseconds >= 0 ? 1 : 0) - (before ? 1 : 0));
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
    self.changed.notify_all();
  }
  for (std::size_t index = 0; index < self.queues.size(); index++) {
    Queue& queue = self.queues[index];
    if (!queue.thread.joinable() || queue.thread.get_id() == std::this_thread::get_id()) {
      continue;
    }
    // Work on an exclusive stream may wait for another process, which may never answer.
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
      g_attention.fetch_sub(static_cast<std::int64_t>(queue.items.size()));
      queue.pending.fetch_sub(static_cast<std::int64_t>(queue.items.size()));
      queue.done += queue.items.size();
      queue.items.clear();
    }
    for (auto& item : self.finished) {
      dropped.push_back(std::move(item));
    }
    self.finished.clear();
  }
}

QueueCounters queue_counters() {
  Scheduler& self = scheduler();
  const std::lock_guard<std::mutex> lock(self.mutex);
  QueueCounters result = self.counters;
  for (const Queue& queue : self.queues) {
    result.pending += queue.pending.load();
  }
  return result;
}

void enqueue_delay(c10::StreamId id, double seconds) {
  TORCH_CHECK(seconds >= 0, "a delay of ", seconds, " seconds is negative; give 0 or more");
  enqueue(id, std::make_unique<Delay>(seconds));
}

void Gate::enqueue(c10::StreamId id) {
  runtime::enqueue(id, std::make_unique<GateWork>(open_));
}

void Gate::open() {
  *open_ = true;
  notify_queues();
}

}  // namespace hpu_reference::runtime
