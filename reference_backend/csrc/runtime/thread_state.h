// The state of a thread that affects its work: the state of the issuing thread, and the state of an executing
// thread that must be hidden.
#pragma once

#include <ATen/ThreadLocalState.h>

namespace hpu_reference::runtime {

// State of the issuing thread. The executing thread applies it to run the work.
struct ThreadState {
  // Returns the state of the calling thread.
  static ThreadState current();
  // Applies this state to the calling thread.
  void apply() const;

  int threads = 1;            // size of the intra-op pool
  unsigned int rounding = 0;  // floating-point control word: flush-denormals and rounding
};

// Scope in which a host thread has the default thread-local state, without modes and hooks, for queued work
// that it runs. A change of the state may take the GIL: never construct this under the scheduler's mutex.
class DefaultThreadState {
 public:
  DefaultThreadState();

 private:
  const at::ThreadLocalStateGuard guard_;
};

// If the calling thread is an autograd thread, records that autograd threads exist. These threads outlive the
// backward pass. Cheap.
void record_backward_thread();
// Returns true if a backward pass has run on a thread of autograd.
bool has_backward_threads();

}  // namespace hpu_reference::runtime
