// The interpreter's lock while a thread waits: others may take it meanwhile. torch holds it in some calls
// that wait for the device (a storage's resize_()), and the awaited work may need it.
#pragma once

#include <mutex>

#include "runtime/lock_order.h"

namespace hpu_reference::runtime {

// Functions that release the lock if this thread has it (null: it has not), and take it again.
struct InterpreterLock {
  void* (*release)() = nullptr;
  void (*acquire)(void* released) = nullptr;
};
// Registers those functions; Python's bindings do while the module is imported.
void set_interpreter_lock(InterpreterLock lock);

// Scope without the interpreter's lock. Construct it before any mutex is locked, and destroy it after it is
// unlocked.
class InterpreterRelease {
 public:
  InterpreterRelease();
  ~InterpreterRelease();
  InterpreterRelease(const InterpreterRelease&) = delete;
  InterpreterRelease& operator=(const InterpreterRelease&) = delete;

 private:
  void* const released_;
};

// A recursive mutex whose owner may take the interpreter's lock, since objects of Python may die under it:
// no thread waits for the mutex with that lock in hand. In the order of locks it comes before the
// interpreter's.
template <LockRank rank>
class YieldingMutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) {
      const InterpreterRelease unlocked;
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
