// Streams as torch sees them: ids, the current one of each thread, and waiting for them.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>

namespace hpu_reference::runtime {

// Id of the default stream.
constexpr c10::StreamId kDefaultStream = 0;

// Storage of current_stream_id().
extern thread_local c10::StreamId tls_current_stream;

// Id of this thread's current stream.
inline c10::StreamId current_stream_id() {
  return tls_current_stream;
}

// torch's stream of that id.
c10::Stream stream_of(c10::StreamId id);

// Makes the stream this thread's current one and launches what lazy mode has recorded on the one before,
// whose id it returns.
c10::StreamId exchange_stream(c10::StreamId id);
// Makes the stream this thread's current one and launches nothing; returns the one before.
inline c10::StreamId exchange_stream_quietly(c10::StreamId id) {
  const c10::StreamId before = tls_current_stream;
  tls_current_stream = id;
  return before;
}

// Makes a stream with an id of its own, unless their number is limited; those above the first 32 share queues
// with earlier ones.
c10::StreamId new_stream();
// The same for the device itself, whatever the limit is.
c10::StreamId new_stream_apart();
// Lets streams made from now on be one of so many, in turn; 0: all are the default stream, -1: no limit.
void set_most_streams(c10::StreamId most);

// True if all work issued so far on the stream has run, recorded work included. Takes no lock.
bool is_stream_idle(c10::StreamId id);
// Waits for the stream's work and throws an error that it has met.
void synchronize_stream(c10::StreamId id);
// Waits for the work of all streams and throws an error that it has met.
void synchronize_device();

// Waits for the work of all streams; an error that it has met stays. Does not acquire the device.
void finish_work();

// Function by which lazy mode launches what it has recorded; null while nothing can be recorded.
using FlushFunction = void (*)();
extern std::atomic<FlushFunction> g_flush_recorded;
// Number of operators that lazy mode has recorded and not launched, and their stream.
extern std::atomic<std::int64_t> g_recorded;
extern std::atomic<c10::StreamId> g_recorded_on;

// Launches what lazy mode has recorded.
inline void flush_recorded() {
  if (g_recorded.load(std::memory_order_relaxed) != 0) {
    g_flush_recorded.load()();
  }
}

// True in sync-debug mode: nothing is queued, and the host waits instead.
bool is_sync_debug_mode();
// Switches sync-debug mode on or off.
void set_sync_debug_mode(bool on);

}  // namespace hpu_reference::runtime
