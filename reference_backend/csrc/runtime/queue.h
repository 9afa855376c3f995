// Queues of streams: work that could not, or should not, run on the thread that issued it.
//
// A stream without pending work costs nothing: callers read one atomic number and run inline. Otherwise one
// thread runs what computes, for all streams; the stream's own thread runs what waits or transfers; a host
// thread that waits for the stream runs either. Never two at a time on one stream. One mutex guards all
// queues: items are few and large compared with it.
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

// Number of queues of ordinary streams: one each for the default stream and the first 32; later streams share
// those.
constexpr int kQueues = 33;
// Number of queues of exclusive streams, behind the ordinary ones; each has one stream only.
constexpr int kExclusiveQueues = 479;
// Id of the first exclusive stream.
constexpr c10::StreamId kFirstExclusiveStream = c10::StreamId{1} << 40;

// Number of the queue that runs the stream's work.
int queue_of(c10::StreamId id);

// Takes a stream whose queue no other stream shares, for work that waits for something outside this process:
// a stream that shared the queue would wait too. Throws if all are taken.
c10::StreamId acquire_exclusive_stream();
// Gives the stream back; it may be handed out again once its work has run.
void release_exclusive_stream(c10::StreamId id);

// One item of a queue.
class Work {
 public:
  virtual ~Work() = default;
  // Does the work, on any thread. An exception becomes the queue's error.
  virtual void run() = 0;
  // True if it can run now; called with the scheduler's mutex held, again after each change of any queue.
  virtual bool ready() const {
    return true;
  }
  // The queue that must move on before this item is ready, or -1.
  virtual int blocked_by() const {
    return -1;
  }
  // True if it uses the intra-op threads, which one piece of work at a time may.
  virtual bool computes() const {
    return true;
  }
  // True if it owns objects that may belong to Python: a host thread destroys it.
  virtual bool released_on_host() const {
    return false;
  }
  // Name for error messages: the operator, with the Python line if it is known.
  virtual std::string name() const = 0;
  // The kind of the row that a trace gets for it; None if what it runs makes rows of its own.
  virtual TraceKind traced_as() const {
    return TraceKind::None;
  }

  ThreadState state;
  TraceOrigin origin;
};

// Counter that is not 0 while any queue has work, finished work to release, or an error, or anything is
// recorded: all that the fast path reads.
extern std::atomic<std::int64_t> g_attention;

// True if anything is queued, recorded, in error or to be released.
inline bool needs_attention() {
  return C10_UNLIKELY(g_attention.load(std::memory_order_acquire) != 0);
}

// True if this thread is running queued work.
bool is_running_work();

// A place in a queue: behind that many items, counted since the queue's first one.
struct QueueMark {
  int queue = 0;
  std::uint64_t number = 0;
};
// True if the items up to the mark have run. Takes no lock.
bool is_reached(const QueueMark& mark);
// The end of the stream's queue.
QueueMark end_of_queue(c10::StreamId id);

// Appends the work to the stream's queue, behind waits for the marks of other queues; starts the thread that
// runs it, if it is the first. Returns the mark behind the work.
QueueMark enqueue(c10::StreamId id, std::unique_ptr<Work> work, const std::vector<QueueMark>& behind = {});

// True if any queue has work. Takes no lock.
bool has_pending_work();
// True if all work queued so far on the stream has run. Takes no lock.
bool is_queue_idle(c10::StreamId id);

// Returns when the work that is in the stream's queue has run; the calling thread helps. With `surface`,
// throws an error that the stream's work has met, once.
void drain(c10::StreamId id, bool surface);
// Drains every queue.
void drain_all(bool surface);

// Keeps an error of work that another thread ran for the stream, as if the queue had met it.
void store_error(int queue, std::exception_ptr error, const std::string& name);

// Destroys finished work that owns objects which may belong to Python. The caller must hold no lock.
void release_finished_work();

// True if the queue's work has met an error that has not been thrown. Takes no lock.
bool has_error(int queue);
// Throws the error that the queue's work has met since the last call.
void surface_error(int queue);

// Returns when the mark is reached; the calling thread helps.
void wait_for(const QueueMark& mark);
// Helps the queue until `done()` is true; it is called with the scheduler's mutex held.
void help_until(int queue, const std::function<bool()>& done);

// Waits, without helping, until `done()` is true, called with the scheduler's mutex held; false after
// `timeout`.
bool wait_until(const std::function<bool()>& done, std::chrono::microseconds timeout);

// Wakes waiting threads; for changes that do not come from a queue.
void notify_queues();

// True if work may be queued. If not, the host waits instead (PT_HPU_EAGER_PIPELINE_ENABLE=0).
bool is_pipeline_enabled();
// Switches queueing on or off.
void set_pipeline_enabled(bool on);

// Sends every operator that can be deferred through the queue, each behind a pause of up to `microseconds`,
// drawn from the seed; a negative value switches this off. For tests.
void set_queue_all(int microseconds, std::uint64_t seed);
// True while set_queue_all() is on.
bool is_queue_all();

// Drops what is queued and ends the threads; the process is about to exit.
void shutdown_queues();

// Counters for tests and statistics.
struct QueueCounters {
  std::int64_t queued = 0;
  std::int64_t taken_over = 0;  // run by a waiting host thread
  std::int64_t workers = 0;
  std::int64_t pending = 0;
};
// The counters now.
QueueCounters queue_counters();

}  // namespace hpu_reference::runtime
