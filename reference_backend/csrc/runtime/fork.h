// A child forked from a process that uses the device cannot use it: its memory is not mapped there.
#pragma once

namespace hpu_reference::runtime {

extern bool g_forked_child;

inline bool is_forked_child() {
  return g_forked_child;
}

// Registers the fork handler; called when the device is acquired.
void watch_forks();

[[noreturn]] void throw_forked();

}  // namespace hpu_reference::runtime
