// Lazy mode: operators are recorded until the program needs a value or the step ends; then the graph is
// launched.
//
// The results of a call that was seen before are known without running it. A new call makes the graph catch
// up: what is recorded runs, then the call itself, and recording goes on; the graph is still one graph.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>

namespace hpu_reference::graph {

// When a graph ends: at a flush, after each operator, or at random (the last two for tests).
enum class LazyMode { Graphs = 1, EachOperator = 2, Random = 3 };

// Starts lazy mode for the rest of the process.
void start_lazy(LazyMode mode, std::uint64_t seed);
// True once lazy mode has started.
bool is_lazy();

// Launches what is recorded. With `wait`, returns when it has run and throws an error that it met.
void flush_lazy(bool wait);
// Number of calls that are recorded and not launched.
std::int64_t recorded_calls();

// Flushes after that many calls, synchronously with `wait`.
void set_lazy_limits(std::int64_t calls, bool wait);
// Switches the execution thread on or off: off, the thread that ends a graph returns when it has run
// (PT_HPU_ENABLE_EXECUTION_THREAD).
void set_lazy_thread(bool on);

// Writes each graph from now on when its recipe is made: NAME_PID.txt and NAME_PID.dot in the folder, which
// exists.
void dump_lazy_graphs(const std::string& folder, bool text, bool dot);

// Counters for tests and statistics.
struct LazyStatistics {
  std::int64_t flushes = 0;
  std::int64_t recorded = 0;
  std::int64_t caught_up = 0;  // calls that ran inline because they were new
  std::int64_t followed = 0;   // calls that were those of a known graph, so that none was made
};
// The counters; all 0 if lazy mode is off.
LazyStatistics lazy_statistics();

// True if nothing recorded or launched uses this memory, so that the host may write it ahead of that.
bool is_untouched(const c10::StorageImpl* storage);

}  // namespace hpu_reference::graph
