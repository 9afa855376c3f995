// What the device did, and when: one row for each kernel, recipe, copy, collective, event and wait, while
// anybody records, or the log lets them through. Off, it costs the reading of one flag.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace hpu_reference::runtime {

// The kinds of work that have rows. A recipe's row holds the rows of its operators.
enum class TraceKind : std::uint8_t { None, Kernel, Recipe, Copy, Collective, Event, Wait };

// The kind's name in traces.
const char* name_of(TraceKind kind);

// One row. Times are nanoseconds since 1970.
struct TraceRow {
  TraceKind kind = TraceKind::Kernel;
  int queue = 0;  // that it ran on: the stream's
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint64_t correlation = 0;  // number of the host's operator that issued it, or 0
  std::int64_t bytes = -1;        // that it read and wrote, or -1 if that is not known
  std::string name;
};

// The rows that were recorded from begin to end.
struct Trace {
  std::vector<TraceRow> rows;  // in the order of their ends
  std::int64_t dropped = 0;    // rows beyond the limit
};

// Who wants rows: kRecorded while anybody records, kLogged while a module of the log lets them through.
inline constexpr std::uint8_t kRecorded = 1;
inline constexpr std::uint8_t kLogged = 2;
extern std::atomic<std::uint8_t> g_rows_wanted;

// True while anybody wants rows.
inline bool is_tracing() {
  return C10_UNLIKELY(g_rows_wanted.load(std::memory_order_relaxed) != 0);
}

// True while anybody records.
inline bool is_recording() {
  return (g_rows_wanted.load(std::memory_order_relaxed) & kRecorded) != 0;
}

// Follows the settings of the log, after they have changed.
void log_rows_as_set();

// Storage of is_profiled(): the open profiles of torch's that cover the device.
extern std::atomic<int> g_profiles;

// True while a profile of torch's covers the device, so that its rows stand for what operators would report.
inline bool is_profiled() {
  return g_profiles.load(std::memory_order_relaxed) != 0;
}

// A recording. Several may be open; each ends with the rows since its own begin.
class TraceRecording {
 public:
  TraceRecording();
  // Gives up the rows unless it has ended.
  ~TraceRecording();
  TraceRecording(const TraceRecording&) = delete;
  TraceRecording& operator=(const TraceRecording&) = delete;

  // Stops recording and returns the rows; empty if it has ended already, or in a forked child. Work that
  // still runs has no row: wait for it first.
  Trace end();

 private:
  struct State;
  State* state_;
};

// The most rows that are kept; what comes behind is counted. Throws ValueError if it is not positive.
void set_trace_limit(std::int64_t rows);
std::int64_t trace_limit();

// The number of the host's operator that the calling thread is in; what it issues has it.
void push_correlation(std::uint64_t id);
void pop_correlation();
std::uint64_t current_correlation();

// The origin of queued work, noted when it is queued.
struct TraceOrigin {
  std::uint64_t correlation = 0;
  std::uint64_t issued = 0;  // on the clock of the rows, 0 without a recording
};
TraceOrigin current_origin();

// While one lives, rows of the calling thread have that correlation.
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

// A row from its construction to its destruction, on the calling thread's current stream; none for the kind
// None. The name must live as long.
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

// Adds a row from `start` to now; `start` 0 makes it a moment.
void add_trace_row(
    TraceKind kind, const std::string& name, int queue, std::uint64_t start, std::int64_t bytes = -1);
// The clock of the rows.
std::uint64_t trace_clock();

}  // namespace hpu_reference::runtime
