// The order of the engine's locks. A thread takes locks from the first rank to the last. It waits for the
// device only while it holds no lock ranked after Recorder. The order is checked if HPU_REFERENCE_CHECK_LOCKS
// is defined when the core is compiled (`nox -s sanitize` defines it). Otherwise the mutex and lock types are
// the standard types.
#pragma once

#include <condition_variable>
#include <mutex>

namespace hpu_reference::runtime {

// The ranks of locks, in the order in which a thread may take the locks.
enum class LockRank {
  Graph,  // lock of a captured graph; Python objects may be destroyed under this lock and the next two
  CaptureRecording,  // lock of a capture in progress
  Recorder,          // lock of lazy mode's recorder
  Gil,               // the GIL
  Compute,           // right to use the intra-op threads
  Recipe,            // lock of a recipe: one run at a time
  Leaf,              // locks of the scheduler and the pool: no other lock is taken under them
};

#ifdef HPU_REFERENCE_CHECK_LOCKS

// Records that the calling thread takes a lock. Ends the process with a message if the thread holds a lock of
// a later rank.
void record_lock(LockRank rank, const void* mutex);
// Records that the calling thread has released the lock.
void record_unlock(const void* mutex);
// Ends the process with a message if the thread holds a lock of a later rank than `rank`. `purpose` is part
// of the message.
void require_at_most(LockRank rank, const char* purpose);

// A mutex with a rank.
template <LockRank rank, class Base = std::mutex>
class RankedMutex {
 public:
  void lock() {
    record_lock(rank, this);
    base_.lock();
  }
  bool try_lock() {
    if (!base_.try_lock()) {
      return false;
    }
    record_lock(rank, this);
    return true;
  }
  void unlock() {
    base_.unlock();
    record_unlock(this);
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
