#include "runtime/fork.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include "device_key.h"
#include "runtime/device.h"

namespace hpu_reference::runtime {

bool g_forked_child = false;

void register_fork_handler() {
  pthread_atfork(nullptr, nullptr, [] {
    g_forked_child = true;
    g_ready = false;
  });
}

void throw_used_in_forked_child() {
  TORCH_CHECK(
      false,
      "the " DEVICE_NAME
      " device cannot be used in a process that was forked after the device was first used; start workers "
      "with the 'spawn' or 'forkserver' method, or use the device only after the fork");
}

}  // namespace hpu_reference::runtime
