// Compiled code for a whole graph, that runs in place of its calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/fused.h"
#include "graph/graph.h"

namespace hpu_reference::graph {

// One argument of the code: a tensor over a buffer of the graph.
struct FusedArgument {
  int buffer;
  at::ScalarType dtype;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset;
  bool written;
};

class FusedProgram {
 public:
  // `arguments` in the order of the convention beside the code. Throws where they do not fit the graph.
  FusedProgram(const std::string& path, const std::vector<FusedArgument>& arguments, const Graph& graph);

  // Whether it may run on this memory: what it writes overlaps nothing else that it is given. It was made for
  // buffers that are apart, and memory that is freed and handed out again while recording is not.
  bool fits(const Graph& graph) const;
  // The graph's host storages point to the memory of this launch.
  void run() const;

 private:
  FusedCode code_;
  std::vector<at::Tensor> arguments_;
  std::vector<int> buffers_;   // each once
  std::vector<bool> written_;  // of `buffers_`
};

}  // namespace hpu_reference::graph
