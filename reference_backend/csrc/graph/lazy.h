// Lazy mode: operators are recorded until the program needs a value or the step ends. Then the graph is
// launched.
//
// The output metadata of a repeated call is known without running the call. Before a new call, the recorder
// catches up: the recorded calls run, then the new call runs, and the recording continues with the same
// graph.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>

namespace hpu_reference::graph {

// When a graph ends: at a flush, after each operator, or at random (the last two for tests).
enum class LazyMode { Graphs = 1, EachOperator = 2, Random = 3 };

// Starts lazy mode for the rest of the process.
void start_lazy_mode(LazyMode mode, std::uint64_t seed);
bool is_lazy();

// Launches the recorded graph. If `wait` is true, waits until the graph has run and throws any error of the
// graph.
void flush_lazy(bool wait);
// Returns the number of calls that are recorded and not launched.
std::int64_t recorded_call_count();

// Limits graphs to this number of calls. If `wait` is true, a flush at the limit waits until the graph has
// run.
void set_lazy_limits(std::int64_t calls, bool wait);
// Enables or disables the execution thread. If disabled, the thread that ends a graph waits until the graph
// has run (PT_HPU_ENABLE_EXECUTION_THREAD).
void set_lazy_thread(bool on);

// Writes each graph from now on when its recipe is compiled, as NAME_PID.txt and NAME_PID.dot in the folder.
// The folder must exist.
void dump_lazy_graphs(const std::string& folder, bool text, bool dot);

// Counters of lazy mode, for tests and statistics.
struct LazyStatistics {
  std::int64_t flushes = 0;
  std::int64_t recorded = 0;
  std::int64_t caught_up = 0;  // new calls, which ran at once
  std::int64_t followed = 0;   // calls of followed graphs, for which no call was created
};
// Returns the counters; all are 0 if lazy mode is off.
LazyStatistics lazy_statistics();

// Returns true if no recorded or launched work uses this memory. The host may then write the memory at once,
// without waiting for such work.
bool is_unused_by_pending_work(const c10::StorageImpl* storage);

}  // namespace hpu_reference::graph
