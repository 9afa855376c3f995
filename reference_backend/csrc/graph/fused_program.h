// Compiled code for a whole graph, that runs in place of its calls.
#pragma once

#include <memory>
#include <string>

#include "graph/graph.h"

namespace hpu_reference::graph {

class FusedProgram {
 public:
  virtual ~FusedProgram() = default;
  // The graph's host storages point to the memory of this launch.
  virtual void run(const Graph& graph) = 0;
};

}  // namespace hpu_reference::graph
