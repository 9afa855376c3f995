// Queues of streams: work that could not, or should not, run on the thread that issued it.
//
// A stream without pending work has no cost: callers look at one atomic number and run inline. Otherwise work
// is run by the stream's own thread, or by a host thread that waits for it, whichever comes first; never by
// two at a time. One mutex guards all queues: items are few and large compared with it.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hpu_reference::runtime {

// The default stream and the 32 that have a queue of their own; later streams share those.
constexpr int kQueues = 33;
// Behind them the queues of exclusive streams, which share theirs with no other.
constexpr int kExclusiveQueues = 479;
constexpr c10::StreamId kFirstExclusiveStream = c10::StreamId{1} << 40;

int queue_of(c10::StreamId id);

// A stream with a queue of its own, for work that waits for what is outside this process: a stream that
// shared the queue would wait with it. Throws where too many are held.
c10::StreamId acquire_exclusive_stream();
// It may be handed out again once its work has run.
void release_exclusive_stream(c10::StreamId id);

// What a thread that runs work for another one must take over from it.
struct ThreadState {
  static ThreadState current();
  void apply() const;

  int threads = 1;            // of the intra-op pool
  unsigned int rounding = 0;  // floating-point control word: flush-denormals and rounding
};

class Work {
 public:
  virtual ~Work() = default;
  virtual void run() = 0;
  // Whether it can run now; asked with the scheduler's mutex held, again after each change of any queue.
  virtual bool ready() const {
    return true;
  }
  // The queue that must move on before this one is ready, or -1.
  virtual int blocked_by() const {
    return -1;
  }
  // Whether it uses the intra-op threads, which one piece of work at a time may.
  virtual bool computes() const {
    return true;
  }
  // Whether it holds what may belong to Python: then it is destroyed on a thread of the host's.
  virtual bool released_on_host() const {
    return false;
  }
  // For the text of errors: the operator, and the Python line where it is known.
  virtual std::string name() const = 0;

  ThreadState state;
};

// Not zero while any queue has work or anything is recorded: the one thing that the fast path reads.
extern std::atomic<std::int64_t> g_attention;

inline bool needs_attention() {
  return C10_UNLIKELY(g_attention.load(std::memory_order_acquire) != 0);
}

// Whether this thread is running queued work.
bool is_running_work();

void enqueue(c10::StreamId id, std::unique_ptr<Work> work);

// Whether all work queued so far on the stream has run. Takes no lock.
bool is_queue_idle(c10::StreamId id);

// Returns when the work that is in the stream's queue has run; the calling thread helps. With `surface`, an
// error that the stream's work has met is thrown, once.
void drain(c10::StreamId id, bool surface);
void drain_all(bool surface);

// Keeps an error of work that ran elsewhere on the stream's behalf, as if the queue had met it.
void store_error(int queue, std::exception_ptr error, const std::string& name);

// Destroys finished work that holds what may belong to Python. Not to be called with locks held.
void release_finished_work();

// Throws the error that the queue's work has met since it was last asked for.
void surface_error(int queue);

// Helps the queue until `done()` holds; it is asked with the scheduler's mutex held.
void help_until(int queue, const std::function<bool()>& done);

// Waits, without helping, until `done()` holds, asked with the scheduler's mutex held; false after `timeout`.
bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds timeout);

// Tells waiting threads to look again; for changes that do not come from a queue.
void notify_queues();

// Off: nothing is queued, and what must wait makes the host wait (PT_HPU_EAGER_PIPELINE_ENABLE=0, sync-debug
// mode).
bool is_pipeline_enabled();
void set_pipeline_enabled(bool on);

// Sends every operator that can be deferred through the queue, with a pause of up to `microseconds`, drawn
// from the seed, in front of each; negative: off. For tests.
void set_queue_all(int microseconds, std::uint64_t seed);
bool is_queue_all();

// Drops what is queued and ends the threads; the process is about to exit.
void shutdown_queues();

struct QueueCounters {
  std::int64_t queued = 0;
  std::int64_t taken_over = 0;  // run by a waiting host thread
  std::int64_t workers = 0;
  std::int64_t pending = 0;
};
QueueCounters queue_counters();

// Debug work: a pause, and a gate that the host opens.
void enqueue_delay(c10::StreamId id, double seconds);
class Gate {
 public:
  void enqueue(c10::StreamId id);
  void open();

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace hpu_reference::runtime
