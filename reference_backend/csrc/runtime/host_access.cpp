#include "runtime/host_access.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::runtime {

namespace {

std::atomic<bool> g_capturing{false};
thread_local bool tls_inline = false;

}  // namespace

bool is_capturing() {
  return g_capturing.load(std::memory_order_relaxed);
}

void set_capturing(bool on) {
  g_capturing = on;
}

InlineScope::InlineScope() : before_(tls_inline) {
  tls_inline = true;
}

InlineScope::~InlineScope() {
  tls_inline = before_;
}

bool runs_inline() {
  return tls_inline || is_running_work();
}

void wait_for_earlier_work(bool surface) {
  if (runs_inline()) {
    return;
  }
  TORCH_CHECK(
      !is_capturing(),
      "an operation that brings device data to the host, or that the device cannot repeat, was called "
      "during hpu graph capturing; move it out of the capture");
  flush_recorded();
  const c10::StreamId stream = current_stream_id();
  if (!is_queue_idle(stream)) {
    drain(stream, surface);
  } else if (surface) {
    surface_error(queue_of(stream));
  }
  release_finished_work();  // it may take the interpreter's lock: none of ours is held here
}

}  // namespace hpu_reference::runtime
