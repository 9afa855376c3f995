// The device's activity over time: one row for each kernel, recipe, copy, collective, event and wait, while a
// trace is recorded or the log shows such rows. Otherwise, no rows are made, and the check costs the read of
// one flag.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace hpu_reference::runtime {

// The kinds of work for which a trace has rows. The operators of a recipe have their own rows, within the
// time of the recipe's row.
enum class TraceKind : std::uint8_t { None, Kernel, Recipe, Copy, Collective, Event, Wait };

// Returns the kind's name in traces.
const char* name_of(TraceKind kind);

// One row of a trace. Times are nanoseconds since 1970.
struct TraceRow {
  TraceKind kind = TraceKind::Kernel;
  int queue = 0;  // the queue of the stream that ran the work
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint64_t correlation = 0;  // number of the host operator that issued the work, or 0
  std::int64_t bytes = -1;        // bytes read and written, or -1 if unknown
  std::string name;
};

// The rows that were recorded between begin and end of a recording.
struct Trace {
  std::vector<TraceRow> rows;  // in the order of their end times
  std::int64_t dropped = 0;    // rows beyond the limit
};

// The consumers of rows, as bits. kRecorded: at least one recording is open. kLogged: at least one module of
// the log shows rows.
inline constexpr std::uint8_t kRecorded = 1;
inline constexpr std::uint8_t kLogged = 2;
extern std::atomic<std::uint8_t> g_row_consumers;

// Returns true while a recording or the log consumes rows.
inline bool is_tracing() {
  return C10_UNLIKELY(g_row_consumers.load(std::memory_order_relaxed) != 0);
}

// Returns true while a recording is open.
inline bool is_recording() {
  return (g_row_consumers.load(std::memory_order_relaxed) & kRecorded) != 0;
}

// Updates the kLogged bit after the settings of the log have changed.
void update_logged_rows();

// The number of open torch profiles that cover the device.
extern std::atomic<int> g_profiles;

// Returns true while a torch profile covers the device. The device's rows then replace the events that
// operators would report.
inline bool is_torch_profile_active() {
  return g_profiles.load(std::memory_order_relaxed) != 0;
}

// A recording of rows. Several recordings may be open; each returns the rows since its own start.
class TraceRecording {
 public:
  TraceRecording();
  // Discards the rows unless end() was called.
  ~TraceRecording();
  TraceRecording(const TraceRecording&) = delete;
  TraceRecording& operator=(const TraceRecording&) = delete;

  // Stops the recording and returns its rows. Returns no rows if the recording has already ended, or in a
  // forked child. Wait for work first: running work has no row yet.
  Trace end();

 private:
  struct State;
  State* state_;
};

// Sets the largest number of rows to keep. Further rows are only counted. Throws ValueError if the number is
// not positive.
void set_trace_limit(std::int64_t rows);
std::int64_t trace_limit();

// Sets the number of the host operator that the calling thread executes. Work that the thread issues gets
// this number. pop_correlation() restores the previous number.
void push_correlation(std::uint64_t id);
void pop_correlation();
std::uint64_t current_correlation();

// The origin of queued work, recorded when the work is queued.
struct TraceOrigin {
  std::uint64_t correlation = 0;
  std::uint64_t issued = 0;  // on the clock of the rows; 0 if no trace is recorded
};
TraceOrigin current_origin();

// Scope in which work that the calling thread issues has this correlation number.
class CorrelationScope {
 public:
  explicit CorrelationScope(std::uint64_t id) : active_(is_tracing()) {
    if (active_) {
      push_correlation(id);
    }
  }
  ~CorrelationScope() {
    if (active_) {
      pop_correlation();
    }
  }
  CorrelationScope(const CorrelationScope&) = delete;
  CorrelationScope& operator=(const CorrelationScope&) = delete;

 private:
  const bool active_;
};

// A row that lasts from construction to destruction of this object, on the calling thread's current stream.
// The kind None adds no row. The name must outlive this object.
class TraceSpan {
 public:
  TraceSpan(TraceKind kind, const std::string& name) {
    if (is_tracing() && kind != TraceKind::None) {
      begin(kind, &name);
    }
  }
  ~TraceSpan() {
    if (C10_UNLIKELY(name_ != nullptr)) {
      finish();
    }
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  bool is_active() const {
    return C10_UNLIKELY(name_ != nullptr);
  }
  void add_bytes(std::size_t bytes) {
    bytes_ += static_cast<std::int64_t>(bytes);
  }

 private:
  void begin(TraceKind kind, const std::string* name);
  void finish();

  const std::string* name_ = nullptr;
  TraceKind kind_ = TraceKind::None;
  std::uint64_t start_ = 0;
  std::int64_t bytes_ = 0;
};

// Adds a row from `start` to now. With `start` 0 the row has no duration.
void add_trace_row(
    TraceKind kind, const std::string& name, int queue, std::uint64_t start, std::int64_t bytes = -1);
// Returns the current time on the clock of the rows.
std::uint64_t trace_clock();

}  // namespace hpu_reference::runtime
