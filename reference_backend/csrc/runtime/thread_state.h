// State of a thread that work depends on: what its issuer had, and what a thread that takes it over hides.
#pragma once

#include <ATen/ThreadLocalState.h>

namespace hpu_reference::runtime {

// State of the issuing thread that a thread takes over to run its work.
struct ThreadState {
  // State of the calling thread.
  static ThreadState current();
  // Gives the calling thread this state.
  void apply() const;

  int threads = 1;            // of the intra-op pool
  unsigned int rounding = 0;  // floating-point control word: flush-denormals and rounding
};

// Scope in which a host thread has the thread-local state of one that has set nothing, no modes and no hooks,
// for the work that it takes over. Changing the state may take the interpreter's lock: never under the
// scheduler's mutex.
class PlainState {
 public:
  PlainState();

 private:
  const at::ThreadLocalStateGuard guard_;
};

// Remembers the calling thread if it is one of autograd's, which outlive the backward pass. Cheap.
void note_backward_thread();
// True if a backward pass has run on a thread of autograd's own.
bool has_backward_threads();

}  // namespace hpu_reference::runtime
