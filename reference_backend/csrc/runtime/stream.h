// torch's view of the streams: ids, the current stream of each thread, and synchronization.
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

// Returns torch's stream object for the id.
c10::Stream stream_of(c10::StreamId id);

// Makes the stream this thread's current stream. Launches the work that lazy mode has recorded on the
// previous stream and returns the id of that stream.
c10::StreamId exchange_stream(c10::StreamId id);
// Makes the stream this thread's current stream without launching recorded work. Returns the id of the
// previous stream.
inline c10::StreamId exchange_stream_without_flush(c10::StreamId id) {
  const c10::StreamId before = tls_current_stream;
  tls_current_stream = id;
  return before;
}

// Creates a stream with its own id, unless the number of streams is limited. Streams above the first 32 share
// queues with earlier streams.
c10::StreamId new_stream();
// Creates a stream for the device's internal use. The limit on the number of streams does not apply.
c10::StreamId new_internal_stream();
// Sets the limit on the number of streams. Streams created from now on reuse `limit` ids in turn. 0: every
// new stream is the default stream. -1: no limit.
void set_stream_limit(c10::StreamId limit);

// Returns true if all work issued so far on the stream has run, recorded work included. Takes no lock.
bool is_stream_idle(c10::StreamId id);
// Waits for the stream's work and throws any error of the work.
void synchronize_stream(c10::StreamId id);
// Waits for the work of all streams and throws any error of the work.
void synchronize_device();

// Waits for the work of all streams and keeps any error of the work for later. Does not acquire the device.
void finish_work();

// The function with which lazy mode launches recorded work; null while lazy mode is off.
using FlushFunction = void (*)();
extern std::atomic<FlushFunction> g_flush_recorded;
// Number of operators that lazy mode has recorded and not launched, and their stream.
extern std::atomic<std::int64_t> g_recorded;
extern std::atomic<c10::StreamId> g_recorded_on;

// Launches the work that lazy mode has recorded.
inline void flush_recorded() {
  if (g_recorded.load(std::memory_order_relaxed) != 0) {
    g_flush_recorded.load()();
  }
}

// Returns true in sync-debug mode: no work is queued, and the host waits instead.
bool is_sync_debug_mode();
void set_sync_debug_mode(bool on);

}  // namespace hpu_reference::runtime
