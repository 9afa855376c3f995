#include "runtime/trace.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "runtime/lock_order.h"
#include "runtime/log.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::runtime {

std::atomic<std::uint8_t> g_row_consumers{0};
std::atomic<int> g_profiles{0};

namespace {

// A row in compact form: names are stored once for all rows, times are in ticks.
struct CompactRow {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t correlation;
  std::int64_t bytes;
  const std::string* name;
  int queue;
  TraceKind kind;
};

// A set of names. Rows store pointers to the keys, whose addresses do not change when names are added.
using Names = std::unordered_map<std::string, std::nullptr_t>;

struct Recorder {
  RankedMutex<LockRank::Leaf> mutex;
  std::deque<CompactRow> rows;
  std::shared_ptr<Names> names = std::make_shared<Names>();
  std::int64_t dropped = 0;
  std::int64_t limit = std::int64_t{1} << 21;
  std::size_t newest = 0;  // row at which the latest recording began
  int recordings = 0;
  std::uint64_t began = 0;       // when the first recording began
  std::uint64_t generation = 0;  // a forked child has a different number
};

// Never destroyed: threads may record during static destruction.
Recorder& recorder() {
  static auto* value = new Recorder();
  return *value;
}

// Number of the latest recording that began while no other recording was open. If a profile ends while an
// operator runs, the operator's Correlation stays in its thread. The next profile ignores this Correlation,
// because it has an older number.
std::atomic<std::uint64_t> g_epoch{0};

struct Correlation {
  std::uint64_t id;
  std::uint64_t epoch;
};
thread_local std::vector<Correlation> tls_correlations;

// Returns the log module and the log level of trace rows of a kind.
std::pair<LogModule, LogLevel> log_destination_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::Recipe:
      return {LogModule::SynHelper, LogLevel::Debug};
    case TraceKind::Copy:
      return {LogModule::Bridge, LogLevel::Trace};
    case TraceKind::Collective:
      return {LogModule::Distributed, LogLevel::Debug};
    case TraceKind::Event:
    case TraceKind::Wait:
      return {LogModule::Device, LogLevel::Trace};
    case TraceKind::None:
    case TraceKind::Kernel:
      break;
  }
  return {LogModule::Kernel, LogLevel::Trace};
}

// Converts ticks of the rows' clock to microseconds. The rate is measured against a steady clock since the
// first call.
double microseconds(std::uint64_t ticks) {
  using Clock = std::chrono::steady_clock;
  static const std::uint64_t first_tick = trace_clock();
  static const Clock::time_point first = Clock::now();
  const auto passed = static_cast<double>(trace_clock() - first_tick);
  const std::chrono::duration<double, std::micro> time = Clock::now() - first;
  return passed > 0 ? static_cast<double>(ticks) * time.count() / passed : 0;
}

void log_row(TraceKind kind, const std::string& name, int queue, std::uint64_t ticks, std::int64_t bytes) {
  const auto [module, level] = log_destination_of(kind);
  if (!is_logged(module, level)) {
    return;
  }
  try {
    std::string text = c10::str(name, ": stream ", queue);
    if (ticks != 0) {
      text += c10::str(", ", static_cast<std::int64_t>(microseconds(ticks)), " us");
    }
    if (bytes > 0) {
      text += c10::str(", ", bytes, " bytes");
    }
    write_log(module, level, text);
  } catch (const std::bad_alloc&) {  // destructors call this function and must not throw
  }
}

void append_row(TraceKind kind, const std::string& name, int queue, std::uint64_t start, std::int64_t bytes) {
  const std::uint64_t end = trace_clock();
  const std::uint64_t correlation = current_correlation();
  if ((g_row_consumers.load(std::memory_order_relaxed) & kLogged) != 0) {
    log_row(kind, name, queue, start == 0 ? 0 : end - std::min(start, end), bytes);
  }
  Recorder& self = recorder();
  const std::lock_guard lock(self.mutex);
  if (self.recordings == 0) {
    return;
  }
  // Count from the start of the latest recording, so that a long earlier recording does not use up its limit.
  if (static_cast<std::int64_t>(self.rows.size() - self.newest) >= self.limit) {
    self.dropped++;
    return;
  }
  const std::string* interned_name = &self.names->try_emplace(name, nullptr).first->first;
  // If a wait began before the recording, its row starts at the start of the recording.
  self.rows.push_back(
      {start == 0 ? end : std::max(start, self.began), end, correlation, bytes, interned_name, queue, kind});
}

// Ends all recordings in a forked child. Another thread of the parent may have held the lock and been
// changing the rows, so this function does not read the rows.
void forget_traces() {
  Recorder& self = recorder();
  g_row_consumers &= kLogged;
  g_profiles = 0;
  new (&self.mutex) RankedMutex<LockRank::Leaf>();
  new (&self.rows) std::deque<CompactRow>();
  new (&self.names) std::shared_ptr<Names>(std::make_shared<Names>());
  self.recordings = 0;
  self.dropped = 0;
  self.newest = 0;
  self.generation++;
  tls_correlations.clear();
}

}  // namespace

const char* name_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::None:
      break;
    case TraceKind::Kernel:
      return "kernel";
    case TraceKind::Recipe:
      return "recipe";
    case TraceKind::Copy:
      return "copy";
    case TraceKind::Collective:
      return "collective";
    case TraceKind::Event:
      return "event";
    case TraceKind::Wait:
      return "wait";
  }
  return "none";
}

struct TraceRecording::State {
  c10::ApproximateClockToUnixTimeConverter clock;
  std::size_t first = 0;
  std::int64_t dropped = 0;
  std::uint64_t generation = 0;
};

TraceRecording::TraceRecording() : state_(new State()) {
  static std::once_flag watched;
  std::call_once(watched, [] { pthread_atfork(nullptr, nullptr, &forget_traces); });
  Recorder& self = recorder();
  const std::lock_guard lock(self.mutex);
  state_->first = self.newest = self.rows.size();
  state_->dropped = self.dropped;
  state_->generation = self.generation;
  if (self.recordings++ == 0) {
    self.began = trace_clock();
    g_epoch++;
  }
  g_row_consumers |= kRecorded;
}

TraceRecording::~TraceRecording() {
  end();
}

Trace TraceRecording::end() {
  Trace trace;
  if (state_ == nullptr) {
    return trace;
  }
  const std::unique_ptr<State> state(std::exchange(state_, nullptr));
  std::vector<CompactRow> compact_rows;
  std::deque<CompactRow> released;
  std::shared_ptr<const Names> names;  // must outlive the construction of the rows
  Recorder& self = recorder();
  {
    const std::lock_guard lock(self.mutex);
    if (state->generation != self.generation) {
      return trace;
    }
    compact_rows.assign(self.rows.begin() + static_cast<std::ptrdiff_t>(state->first), self.rows.end());
    trace.dropped = self.dropped - state->dropped;
    names = self.names;
    if (--self.recordings == 0) {
      g_row_consumers &= static_cast<std::uint8_t>(~kRecorded);
      released.swap(self.rows);
      self.names = std::make_shared<Names>();
      self.dropped = 0;
      self.newest = 0;
    }
  }
  const auto time_of = state->clock.makeConverter();
  trace.rows.reserve(compact_rows.size());
  for (const CompactRow& row : compact_rows) {
    trace.rows.push_back(
        {row.kind, row.queue, time_of(row.start), time_of(row.end), row.correlation, row.bytes, *row.name});
  }
  return trace;
}

void update_logged_rows() {
  microseconds(0);  // the first call starts the measurement of the advance_queue_clock rate
  bool wanted = false;
  for (const TraceKind kind : {TraceKind::Kernel,
                               TraceKind::Recipe,
                               TraceKind::Copy,
                               TraceKind::Collective,
                               TraceKind::Event,
                               TraceKind::Wait}) {
    const auto [module, level] = log_destination_of(kind);
    wanted = wanted || is_logged(module, level);
  }
  if (wanted) {
    g_row_consumers |= kLogged;
  } else {
    g_row_consumers &= static_cast<std::uint8_t>(~kLogged);
  }
}

void set_trace_limit(std::int64_t rows) {
  TORCH_CHECK_VALUE(rows > 0, "the row limit of a trace must be positive, but got ", rows);
  Recorder& self = recorder();
  const std::lock_guard lock(self.mutex);
  self.limit = rows;
}

std::int64_t trace_limit() {
  Recorder& self = recorder();
  const std::lock_guard lock(self.mutex);
  return self.limit;
}

void push_correlation(std::uint64_t id) {
  const std::uint64_t epoch = g_epoch.load(std::memory_order_relaxed);
  if (!tls_correlations.empty() && tls_correlations.back().epoch != epoch) {
    tls_correlations.clear();
  }
  tls_correlations.push_back({id, epoch});
}

void pop_correlation() {
  if (!tls_correlations.empty()) {
    tls_correlations.pop_back();
  }
}

std::uint64_t current_correlation() {
  const bool current =
      !tls_correlations.empty() && tls_correlations.back().epoch == g_epoch.load(std::memory_order_relaxed);
  return current ? tls_correlations.back().id : 0;
}

TraceOrigin current_origin() {
  return {current_correlation(), trace_clock()};
}

void TraceSpan::begin(TraceKind kind, const std::string* name) {
  kind_ = kind;
  name_ = name;
  start_ = trace_clock();
}

void TraceSpan::finish() {
  append_row(kind_, *name_, queue_of(current_stream_id()), start_, bytes_);
}

void add_trace_row(
    TraceKind kind, const std::string& name, int queue, std::uint64_t start, std::int64_t bytes) {
  append_row(kind, name, queue, start, bytes);
}

std::uint64_t trace_clock() {
  return static_cast<std::uint64_t>(c10::getApproximateTime());
}

}  // namespace hpu_reference::runtime
