#include "runtime/host_access.h"

#include <c10/util/Exception.h>

#include "runtime/capture_scope.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::runtime {

std::atomic<bool> g_accepts_host_arguments{false};

namespace {

thread_local bool tls_inline = false;
thread_local bool tls_no_wait = false;

}  // namespace

InlineScope::InlineScope() : before_(tls_inline) {
  tls_inline = true;
}

InlineScope::~InlineScope() {
  tls_inline = before_;
}

NoWaitScope::NoWaitScope() : before_(tls_no_wait) {
  tls_no_wait = true;
}

NoWaitScope::~NoWaitScope() {
  tls_no_wait = before_;
}

bool is_waiting_allowed() {
  return !tls_no_wait && !is_running_work();
}

bool must_run_inline() {
  return tls_inline || is_running_work();
}

void wait_for_earlier_work(bool throw_errors) {
  if (must_run_inline()) {
    return;
  }
  flush_recorded();
  const c10::StreamId stream = current_stream_id();
  if (!is_queue_idle(stream)) {
    drain(stream, throw_errors);
  } else if (throw_errors) {
    throw_queue_error(queue_of(stream));
  }
  if (throw_errors) {
    order_host_after(clock_of(queue_of(stream)));
  }
  release_finished_work();  // may take the GIL: this thread holds none of the engine's locks here
}

void refuse_during_capture() {
  TORCH_CHECK(
      must_run_inline() || !is_capturing(),
      "an operation that brings device data to the host, or that the device cannot repeat, was called "
      "during hpu graph capturing; move the operation out of the capture");
}

}  // namespace hpu_reference::runtime
