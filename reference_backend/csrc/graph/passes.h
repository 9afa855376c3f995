// What is done to a graph before it becomes a recipe. Each pass keeps what can be seen afterwards: the bytes
// of inputs and outputs. Calls stay in their order.
#pragma once

#include "graph/graph.h"

namespace hpu_reference::graph {

// `origin`: for each call its position in the graph as it was recorded; kept in step.
// Calls that nothing alive depends on.
void remove_dead_calls(Graph& graph, std::vector<std::size_t>& origin);

// Calls that compute again what is there already, into temporaries. Random ones, and ones with values that
// change from launch to launch (`lifted`), are not touched.
void merge_common_calls(Graph& graph, std::vector<std::size_t>& origin, bool lifted);

// Calls without inputs, or with folded ones only, are run once.
void fold_constants(Graph& graph, std::vector<std::size_t>& origin, bool lifted);

// Places temporaries in one workspace: no two that are in use at the same time overlap. Returns its bytes.
std::size_t plan_memory(const Graph& graph, std::vector<std::size_t>& offsets);

}  // namespace hpu_reference::graph
