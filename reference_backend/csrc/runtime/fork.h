// Fork detection. A child forked from a process that uses the device cannot use the device, because the
// device's memory is not mapped in the child.
#pragma once

namespace hpu_reference::runtime {

extern bool g_forked_child;

// Returns true in a child that was forked after the device was acquired.
inline bool is_forked_child() {
  return g_forked_child;
}

// Registers the fork handler. Called when the device is acquired.
void register_fork_handler();

// Throws the error of a forked child that uses the device.
[[noreturn]] void throw_used_in_forked_child();

}  // namespace hpu_reference::runtime
