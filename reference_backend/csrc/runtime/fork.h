// A child forked from a process that uses the device cannot use it: its memory is not mapped there.
#pragma once

namespace hpu_reference::runtime {

// Storage of is_forked_child().
extern bool g_forked_child;

// True in a child forked after the device was acquired.
inline bool is_forked_child() {
  return g_forked_child;
}

// Registers the fork handler; runs when the device is acquired.
void watch_forks();

// Throws the error for using the device in a forked child.
[[noreturn]] void throw_forked();

}  // namespace hpu_reference::runtime
