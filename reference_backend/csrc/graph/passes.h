// Passes over a graph before it becomes a recipe. Each keeps what is visible afterwards, the bytes of inputs
// and outputs, and the order of calls. `origin` has the position of each call in the recorded graph and is
// kept in step.
#pragma once

#include "graph/graph.h"

namespace hpu_reference::graph {

// Removes calls whose results nothing alive depends on.
void remove_dead_calls(Graph& graph, std::vector<std::size_t>& origin);

// Removes calls that compute again, into temporaries, what another call has computed. Leaves random calls
// and, if `lifted`, those with values that change from launch to launch.
void merge_common_calls(Graph& graph, std::vector<std::size_t>& origin, bool lifted);

// Runs calls without inputs, or with folded ones only, and keeps their results as constants.
void fold_constants(Graph& graph, std::vector<std::size_t>& origin, bool lifted);

// Places temporaries in one workspace; no two that are in use at the same time overlap. Returns its
// bytes.
std::size_t plan_memory(const Graph& graph, std::vector<std::size_t>& offsets);

}  // namespace hpu_reference::graph
