// What a thread that waits does about the interpreter's lock: others may take it meanwhile. torch holds it in
// some calls that wait for the device (a storage's resize_()); what is waited for may need it.
#pragma once

namespace hpu_reference::runtime {

// Gives the lock up where this thread holds it (null: it does not), and takes it again.
struct InterpreterLock {
  void* (*release)() = nullptr;
  void (*acquire)(void* released) = nullptr;
};
void set_interpreter_lock(InterpreterLock lock);

// To be made before any mutex is taken, and to die after it is given back.
class InterpreterRelease {
 public:
  InterpreterRelease();
  ~InterpreterRelease();
  InterpreterRelease(const InterpreterRelease&) = delete;
  InterpreterRelease& operator=(const InterpreterRelease&) = delete;

 private:
  void* const released_;
};

}  // namespace hpu_reference::runtime
