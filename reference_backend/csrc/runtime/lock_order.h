// The order of the engine's locks. A thread takes them from the first rank to the last, and waits for the
// device only while it holds none behind Recorder. Checked if HPU_REFERENCE_CHECK_LOCKS is defined when
// the core is compiled (`nox -s sanitize` does so); otherwise these are the standard types.
#pragma once

#include <condition_variable>
#include <mutex>

namespace hpu_reference::runtime {

// Ranks, in order.
enum class LockRank {
  Graph,        // a captured graph's; objects of Python may die under it, and under the next two
  Recording,    // a capture's in progress
  Recorder,     // lazy mode's
  Interpreter,  // not ours
  Compute,      // the right to use the intra-op threads
  Recipe,       // one run of a recipe at a time
  Leaf,         // the scheduler's, the pool's: nothing else is taken under it
};

#ifdef HPU_REFERENCE_CHECK_LOCKS

// Notes that the calling thread takes a lock; ends the process with a message if it has one that comes
// behind.
void note_locked(LockRank rank, const void* mutex);
// Notes that it has given the lock back.
void note_unlocked(const void* mutex);
// Ends the process with a message if the thread has a lock of a rank behind this one. `purpose` is for the
// message.
void require_at_most(LockRank rank, const char* purpose);

// A mutex with a rank.
template <LockRank rank, class Base = std::mutex>
class RankedMutex {
 public:
  void lock() {
    note_locked(rank, this);
    base_.lock();
  }
  bool try_lock() {
    if (!base_.try_lock()) {
      return false;
    }
    note_locked(rank, this);
    return true;
  }
  void unlock() {
    base_.unlock();
    note_unlocked(this);
  }

 private:
  Base base_;
};
using Condition = std::condition_variable_any;

#else

template <LockRank rank, class Base = std::mutex>
using RankedMutex = Base;
using Condition = std::condition_variable;
inline void require_at_most(LockRank, const char*) {
}

#endif

}  // namespace hpu_reference::runtime
