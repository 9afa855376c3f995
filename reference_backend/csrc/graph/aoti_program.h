// Compiled code for a whole graph, which runs in place of its calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/aoti_library.h"
#include "graph/graph.h"

namespace hpu_reference::graph {

// One argument of the code: a tensor over a buffer of the graph.
struct AotiArgument {
  int buffer;
  at::ScalarType dtype;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset;
  bool written;
};

// Fused code with its arguments bound to the buffers of one graph.
class AotiProgram {
 public:
  // Loads the code; `arguments` are in the order of the convention beside it. Throws if they do not fit the
  // graph.
  AotiProgram(const std::string& path, const std::vector<AotiArgument>& arguments, const Graph& graph);

  // True if it may run on this memory: what it writes overlaps nothing else. It was compiled for separate
  // buffers, but memory that is freed and handed out again while recording is shared.
  bool fits(const Graph& graph) const;
  // Runs the code on the memory that the graph's host storages point to.
  void run() const;

 private:
  AotiLibrary code_;
  std::vector<at::Tensor> arguments_;
  std::vector<int> buffers_;   // each once
  std::vector<bool> written_;  // of `buffers_`
};

}  // namespace hpu_reference::graph
