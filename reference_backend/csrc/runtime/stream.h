// Streams and events. Work runs inline on the calling thread for now, so every stream is idle whenever
// somebody can ask; the interface is the one that an asynchronous engine fills.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>

namespace hpu_reference::runtime {

constexpr c10::StreamId kDefaultStream = 0;

extern thread_local c10::StreamId tls_current_stream;

inline c10::StreamId current_stream_id() {
  return tls_current_stream;
}

c10::Stream stream_of(c10::StreamId id);
c10::StreamId exchange_stream(c10::StreamId id);

// A stream of its own id; the ids above the first 32 share "hardware" with earlier ones, which inline work
// cannot observe.
c10::StreamId new_stream();

// Whether all work queued so far on the stream has run.
bool is_stream_idle(c10::StreamId id);
void synchronize_stream(c10::StreamId id);
void synchronize_device();

struct Event {
  std::uint64_t version = 0;  // 0: never recorded
  bool timing = false;
  c10::StreamId stream = kDefaultStream;
  std::chrono::steady_clock::time_point time;
};

bool is_sync_debug_mode();
void set_sync_debug_mode(bool on);

}  // namespace hpu_reference::runtime
