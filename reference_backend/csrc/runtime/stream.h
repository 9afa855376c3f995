// Streams as torch sees them: ids, the current one of each thread, and waiting for them.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>

namespace hpu_reference::runtime {

constexpr c10::StreamId kDefaultStream = 0;

extern thread_local c10::StreamId tls_current_stream;

inline c10::StreamId current_stream_id() {
  return tls_current_stream;
}

c10::Stream stream_of(c10::StreamId id);

// Makes it the current stream of this thread; returns the one before. What lazy mode has recorded on the old
// one is launched.
c10::StreamId exchange_stream(c10::StreamId id);
inline c10::StreamId exchange_stream_quietly(c10::StreamId id) {
  const c10::StreamId before = tls_current_stream;
  tls_current_stream = id;
  return before;
}

// A stream of its own id; those above the first 32 share queues with earlier ones.
c10::StreamId new_stream();

// Whether all work issued so far on the stream has run, recorded work included. Takes no lock.
bool is_stream_idle(c10::StreamId id);
// Both wait for the work and throw an error that it has met.
void synchronize_stream(c10::StreamId id);
void synchronize_device();

// Lazy mode's part in all this: launches what it has recorded. Null while nothing can be recorded.
using FlushFunction = void (*)();
extern std::atomic<FlushFunction> g_flush_recorded;
// Operators that lazy mode has recorded on a stream and not launched.
extern std::atomic<std::int64_t> g_recorded;
extern std::atomic<c10::StreamId> g_recorded_on;

inline void flush_recorded() {
  if (g_recorded.load(std::memory_order_relaxed) != 0) {
    g_flush_recorded.load()();
  }
}

bool is_sync_debug_mode();
void set_sync_debug_mode(bool on);

}  // namespace hpu_reference::runtime
