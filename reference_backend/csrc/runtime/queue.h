// Queues of streams: the work that does not run at once on the thread that issued it.
//
// A stream without pending work costs nothing: callers read one atomic number and run inline. Otherwise one
// thread runs the computing work of all streams. The stream's own thread runs work that waits or transfers. A
// host thread that waits for the stream runs both kinds. At most one item of a stream runs at a time. One
// mutex guards all queues, because items are few and take much longer than the locking.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/thread_state.h"
#include "runtime/trace.h"

namespace hpu_reference::runtime {

// Number of queues of ordinary streams. The default stream and the first 32 streams have one queue each;
// later streams share these queues.
constexpr int kQueues = 33;
// Number of queues of exclusive streams. They follow the ordinary queues, and each serves one stream only.
constexpr int kExclusiveQueues = 479;
constexpr c10::StreamId kFirstExclusiveStream = c10::StreamId{1} << 40;

// Returns the index of the queue that runs the stream's work.
int queue_of(c10::StreamId id);

// Acquires a stream whose queue serves no other stream. Use it for work that waits for something outside this
// process, because any other stream on the queue would wait too. Throws if all exclusive streams are in use.
c10::StreamId acquire_exclusive_stream();
// Releases the exclusive stream. It can be acquired again once its work has run.
void release_exclusive_stream(c10::StreamId id);

// One item of a queue.
class Work {
 public:
  virtual ~Work() = default;
  // Does the work, on any thread. The queue stores an exception as the queue's error.
  virtual void run() = 0;
  // Returns true if the item can run now. Called with the scheduler's mutex held, again after each change of
  // any queue.
  virtual bool is_ready() const {
    return true;
  }
  // Returns the index of the queue that must make progress before this item is ready, or -1.
  virtual int blocked_by() const {
    return -1;
  }
  // Returns true if the item uses the intra-op threads. Only one such item may run at a time.
  virtual bool uses_intraop_threads() const {
    return true;
  }
  // Returns true if the item owns objects that may belong to Python. A host thread then destroys it.
  virtual bool must_be_destroyed_on_host() const {
    return false;
  }
  // Returns the name for error messages: the operator, with the Python line if it is known.
  virtual std::string name() const = 0;
  // Returns the kind of the trace row of this item. Returns None if the executed code adds its own rows.
  virtual TraceKind trace_kind() const {
    return TraceKind::None;
  }

  ThreadState state;
  TraceOrigin origin;
};

// The pending-work flag: a counter that is nonzero while any queue has work, finished work to release or an
// error, or while any call is recorded. The fast path reads nothing else.
extern std::atomic<std::int64_t> g_pending_work;

// Returns true if any work is queued, recorded, failed or waiting for its release.
inline bool is_work_pending() {
  return C10_UNLIKELY(g_pending_work.load(std::memory_order_acquire) != 0);
}

// Returns true if this thread is running queued work.
bool is_running_work();

// A position in a queue: the number of items before it, counted since the queue was created.
struct QueueMark {
  int queue = 0;
  std::uint64_t number = 0;
};
// Returns true if all items up to the mark have run. Takes no lock.
bool is_reached(const QueueMark& mark);
// Returns the mark of the end of the stream's queue.
QueueMark mark_of_queue_end(c10::StreamId id);

// Appends the work to the stream's queue. The work first waits until the marks in `after`, which belong to
// other queues, are reached. Starts the queue's thread if it does not run yet. Returns the mark after the
// work.
QueueMark enqueue(c10::StreamId id, std::unique_ptr<Work> work, const std::vector<QueueMark>& after = {});

// Returns true if any queue has work. Takes no lock.
bool has_pending_work();
// Returns true if all work queued so far on the stream has run. Takes no lock.
bool is_queue_idle(c10::StreamId id);

// Waits until the work in the stream's queue has run; the calling thread helps to run it. If `throw_errors`
// is true, throws an error of the stream's work once.
void drain(c10::StreamId id, bool throw_errors);
void drain_all(bool throw_errors);

// Stores an error of work that another thread ran for the stream, as if the queue had run the work.
void store_error(int queue, std::exception_ptr error, const std::string& name);

// Destroys finished work that owns objects which may belong to Python. The caller must hold no lock.
void release_finished_work();

// Returns true if work of the queue has failed and the error has not been thrown yet. Takes no lock.
bool has_error(int queue);
// Throws the error of the queue's work since the last call, if any.
void throw_queue_error(int queue);

// Waits until the mark is reached; the calling thread helps to run the work.
void wait_for(const QueueMark& mark);
// Helps to run the queue until `done()` returns true. `done()` is called with the scheduler's mutex held.
void help_until(int queue, const std::function<bool()>& done);

// Waits, without helping, until `done()` returns true. `done()` is called with the scheduler's mutex held.
// Returns false after `timeout`.
bool wait_until(const std::function<bool()>& done, std::chrono::microseconds timeout);

// Wakes the waiting threads, so that they check again what they wait for. Call it after a change that does
// not come from a queue.
void notify_queues();

// Returns true if work may be queued. If not, the host waits instead (PT_HPU_EAGER_PIPELINE_ENABLE=0).
bool is_pipeline_enabled();
void set_pipeline_enabled(bool on);

// Queues every operator that can be deferred. Each operator waits up to `microseconds` first; the seed
// determines the delays. A negative value disables this. For tests.
void set_queue_all(int microseconds, std::uint64_t seed);
// Returns true while set_queue_all() is enabled.
bool is_queue_all();

// Drops all queued work and ends the threads. Called when the process is about to exit.
void shutdown_queues();

// Counters of the queues, for tests and statistics.
struct QueueCounters {
  std::int64_t queued = 0;
  std::int64_t taken_over = 0;  // run by a waiting host thread
  std::int64_t workers = 0;
  std::int64_t pending = 0;
};
QueueCounters queue_counters();

}  // namespace hpu_reference::runtime
