// Release of the GIL while a thread waits for the device. torch holds the GIL in some calls that wait for the
// device (a storage's resize_()), and the awaited work may need the GIL.
#pragma once

#include <mutex>

#include "runtime/lock_order.h"

namespace hpu_reference::runtime {

// release() releases the GIL if this thread holds it, and returns null otherwise. acquire() takes the GIL
// again.
struct GilFunctions {
  void* (*release)() = nullptr;
  void (*acquire)(void* released) = nullptr;
};
// Registers the functions. The Python bindings call this while the module is imported.
void set_gil_functions(GilFunctions functions);

// Scope in which this thread does not hold the GIL. Construct it before locking any mutex, and destroy it
// after unlocking the mutex.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  void* const released_;
};

// A recursive mutex whose owner may take the GIL, because Python objects may be destroyed while it is locked.
// A thread that waits for this mutex releases the GIL first. In the lock order the mutex precedes the GIL.
template <LockRank rank>
class YieldingMutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) {
      const GilRelease unlocked;
      mutex_.lock();
    }
  }
  void unlock() {
    mutex_.unlock();
  }

 private:
  RankedMutex<rank, std::recursive_mutex> mutex_;
};

}  // namespace hpu_reference::runtime
