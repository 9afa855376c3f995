#include "runtime/stream.h"

#include <atomic>

#include "runtime/device.h"

namespace hpu_reference::runtime {

thread_local c10::StreamId tls_current_stream = kDefaultStream;

namespace {
std::atomic<c10::StreamId> g_next_stream{1};
std::atomic<bool> g_sync_debug{false};
}  // namespace

c10::Stream stream_of(c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::HPU, 0), id);
}

c10::StreamId exchange_stream(c10::StreamId id) {
  const c10::StreamId before = tls_current_stream;
  tls_current_stream = id;
  return before;
}

c10::StreamId new_stream() {
  return g_next_stream++;
}

bool is_stream_idle(c10::StreamId) {
  return true;
}

void synchronize_stream(c10::StreamId) {
  acquire();
}

void synchronize_device() {
  acquire();
}

bool is_sync_debug_mode() {
  return g_sync_debug;
}

void set_sync_debug_mode(bool on) {
  g_sync_debug = on;
}

}  // namespace hpu_reference::runtime
