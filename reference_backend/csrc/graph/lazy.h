// Lazy mode: operators are recorded until somebody needs a value or the step ends; then the graph is
// launched.
//
// The results of a call that was seen before are known without running it. One that is new makes the graph
// catch up: what is recorded runs, then the call itself, and recording goes on; the graph is still one graph.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/recipe.h"

namespace hpu_reference::graph {

enum class LazyMode { Graphs = 1, EachOperator = 2, Random = 3 };

// Starts lazy mode for the rest of the process.
void start_lazy(LazyMode mode, std::uint64_t seed);
bool is_lazy();

// Launches what is recorded; `wait`: and returns when it has run, throwing an error that it met.
void flush_lazy(bool wait);
std::int64_t recorded_calls();

// A flush after so many calls; `wait`: a synchronous one.
void set_lazy_limits(std::int64_t calls, bool wait);
// Off: a graph is launched on the thread that ends it (PT_HPU_ENABLE_EXECUTION_THREAD).
void set_lazy_thread(bool on);

struct LazyStatistics {
  std::int64_t flushes = 0;
  std::int64_t recorded = 0;
  std::int64_t caught_up = 0;  // calls that ran inline because they were new
};
LazyStatistics lazy_statistics();

// Recipes that have been launched often enough to be worth compiling and were not given out before, with
// their names. Cheap where there are none.
std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> take_hot_recipes();

// Whether nothing that is recorded or was launched uses this memory: then the host may write it ahead of
// that.
bool is_untouched(const c10::StorageImpl* storage);

}  // namespace hpu_reference::graph
