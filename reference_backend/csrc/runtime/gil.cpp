#include "runtime/gil.h"

namespace hpu_reference::runtime {

namespace {
InterpreterLock g_lock;  // set while the module is imported
}

void set_interpreter_lock(InterpreterLock lock) {
  g_lock = lock;
}

InterpreterRelease::InterpreterRelease()
    : released_((require_at_most(LockRank::Recorder, "gives the interpreter's lock back, to take it later"),
                 g_lock.release == nullptr ? nullptr : g_lock.release())) {
}

InterpreterRelease::~InterpreterRelease() {
  if (released_ != nullptr) {
    g_lock.acquire(released_);
  }
}

}  // namespace hpu_reference::runtime
