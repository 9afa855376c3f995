// Host access to device data: it is safe once earlier work is finished, and refused while a graph is
// captured, which could not repeat it.
#pragma once

#include <atomic>

namespace hpu_reference::runtime {

// Storage of accepts_host_arguments(); lazy mode sets it.
extern std::atomic<bool> g_accepts_host_arguments;

// True if operators take what belongs to the host beside tensors of the device: CPU tensors that they read,
// and CPU generators. The bridge accepts them in lazy mode.
inline bool accepts_host_arguments() {
  return g_accepts_host_arguments.load(std::memory_order_relaxed);
}

// Scope in which this thread's calls run inline, whatever is recorded or queued.
class InlineScope {
 public:
  InlineScope();
  ~InlineScope();
  InlineScope(const InlineScope&) = delete;
  InlineScope& operator=(const InlineScope&) = delete;

 private:
  bool before_;
};

// Scope in which this thread must not wait for queued work, whose threads may need what it has.
class NoWaitScope {
 public:
  NoWaitScope();
  ~NoWaitScope();
  NoWaitScope(const NoWaitScope&) = delete;
  NoWaitScope& operator=(const NoWaitScope&) = delete;

 private:
  bool before_;
};
// False for a thread in a NoWaitScope, and for one that runs queued work.
bool may_wait();

// True if this thread's calls must run at once: it is in an InlineScope or runs queued work.
bool runs_inline();

// Makes host access to device data safe on this thread: launches what is recorded and waits for the current
// stream. With `surface`, throws the error that the stream's work has met.
void wait_for_earlier_work(bool surface);
// Throws if work of this thread on its current stream is being captured: a replay could not repeat what
// follows.
void refuse_during_capture();

}  // namespace hpu_reference::runtime
