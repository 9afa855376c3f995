// Host access to device data. Access is safe once earlier work has finished. During a capture, an access
// throws an error, because a replay could not repeat the access.
#pragma once

#include <atomic>

namespace hpu_reference::runtime {

extern std::atomic<bool> g_accepts_host_arguments;

// Returns true if operators accept host arguments next to device tensors: CPU tensors that they read, and CPU
// generators. As in Gaudi's PyTorch bridge, only lazy mode accepts host arguments; it sets
// g_accepts_host_arguments.
inline bool accepts_host_arguments() {
  return g_accepts_host_arguments.load(std::memory_order_relaxed);
}

// Scope in which this thread's calls run inline, even if other work is recorded or queued.
class InlineScope {
 public:
  InlineScope();
  ~InlineScope();
  InlineScope(const InlineScope&) = delete;
  InlineScope& operator=(const InlineScope&) = delete;

 private:
  bool before_;
};

// Scope in which this thread must not wait for queued work. The threads that run the queued work may need
// locks that this thread holds.
class NoWaitScope {
 public:
  NoWaitScope();
  ~NoWaitScope();
  NoWaitScope(const NoWaitScope&) = delete;
  NoWaitScope& operator=(const NoWaitScope&) = delete;

 private:
  bool before_;
};
// Returns false for a thread in a NoWaitScope and for a thread that runs queued work.
bool is_waiting_allowed();

// Returns true if this thread's calls must run at once: the thread is in an InlineScope or runs queued work.
bool must_run_inline();

// Makes host access to device data safe on this thread: launches recorded work and waits for the current
// stream. If `throw_errors` is true, throws any error of the stream's work.
void wait_for_earlier_work(bool throw_errors);
// Throws if a capture records this thread's work on its current stream. A replay could not repeat the host
// access that follows.
void refuse_during_capture();

}  // namespace hpu_reference::runtime
