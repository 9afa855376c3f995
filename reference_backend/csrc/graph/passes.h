// Passes over a graph before it becomes a recipe. Each pass preserves the results that are visible afterwards
// (the bytes of inputs and outputs) and the order of calls. `origin` holds the index of each call in the
// recorded graph; the passes keep it up to date.
#pragma once

#include "graph/graph.h"

namespace hpu_reference::graph {

// Removes calls on whose results no living buffer depends.
void remove_dead_calls(Graph& graph, std::vector<std::size_t>& origin);

// Removes calls that recompute, into temporaries, the results of an earlier call. Ignores random calls. If
// `lifted` is true, also ignores calls whose values change from launch to launch.
void merge_common_calls(Graph& graph, std::vector<std::size_t>& origin, bool lifted);

// Runs calls that have no inputs or only constant inputs, and stores their results as constants.
void fold_constants(Graph& graph, std::vector<std::size_t>& origin, bool lifted);

// Plans temporaries into one workspace, so that temporaries that are live at the same time do not overlap.
// Returns the size of the workspace in bytes.
std::size_t plan_memory(const Graph& graph, std::vector<std::size_t>& offsets);

}  // namespace hpu_reference::graph
