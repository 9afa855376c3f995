#include "runtime/stream.h"

#include <algorithm>
#include <atomic>

#include "device_key.h"
#include "runtime/device.h"
#include "runtime/queue.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::runtime {

thread_local c10::StreamId tls_current_stream = kDefaultStream;

std::atomic<FlushFunction> g_flush_recorded{nullptr};
std::atomic<std::int64_t> g_recorded{0};
std::atomic<c10::StreamId> g_recorded_on{kDefaultStream};

namespace {
std::atomic<c10::StreamId> g_next_stream{1};
std::atomic<c10::StreamId> g_most_streams{-1};
std::atomic<bool> g_sync_debug{false};
}  // namespace

c10::Stream stream_of(c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::DEVICE_KEY, 0), id);
}

c10::StreamId exchange_stream(c10::StreamId id) {
  if (id != tls_current_stream) {
    flush_recorded();
  }
  return exchange_stream_without_flush(id);
}

c10::StreamId new_stream() {
  const c10::StreamId id = g_next_stream++;
  const c10::StreamId limit = g_most_streams;
  if (limit < 0) {
    return id;
  }
  return limit == 0 ? kDefaultStream : (id - 1) % limit + 1;
}

c10::StreamId new_internal_stream() {
  return std::max<c10::StreamId>(g_most_streams, 0) + g_next_stream++;
}

void set_stream_limit(c10::StreamId limit) {
  g_most_streams = limit;
}

bool is_stream_idle(c10::StreamId id) {
  // Check the recorded work before the queue, because recorded work moves into the queue and never back.
  const bool recorded =
      g_recorded.load(std::memory_order_acquire) != 0 && queue_of(g_recorded_on) == queue_of(id);
  return !recorded && is_queue_idle(id);
}

void synchronize_stream(c10::StreamId id) {
  acquire();
  flush_recorded();
  drain(id, /*throw_errors=*/false);
  order_host_after(clock_of(queue_of(id)));
  release_finished_work();
  throw_queue_error(queue_of(id));
}

void synchronize_device() {
  acquire();
  flush_recorded();
  drain_all(/*throw_errors=*/false);
  for (int queue = 0; are_vector_clocks_enabled() && queue < kQueues + kExclusiveQueues; queue++) {
    order_host_after(clock_of(queue));
  }
  release_finished_work();
  drain_all(/*throw_errors=*/true);
}

void finish_work() {
  if (is_work_pending()) {
    flush_recorded();
    drain_all(/*throw_errors=*/false);
  }
}

bool is_sync_debug_mode() {
  return g_sync_debug;
}

void set_sync_debug_mode(bool on) {
  g_sync_debug = on;
}

}  // namespace hpu_reference::runtime
