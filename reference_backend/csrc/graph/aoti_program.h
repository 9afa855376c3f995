// Compiled code for a whole graph, which runs instead of the graph's calls.
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

// A shared object with its arguments bound to the buffers of one graph.
class AotiProgram {
 public:
  // Loads the shared object. `arguments` are in the order of `convention.json`. Throws if they do not match
  // the graph.
  AotiProgram(const std::string& path, const std::vector<AotiArgument>& arguments, const Graph& graph);

  // Returns true if the code may run on the present memory: no written buffer overlaps another buffer. The
  // code was compiled for separate buffers, but buffers may share memory that was freed and allocated again
  // during the recording.
  bool fits(const Graph& graph) const;
  // Runs the code on the memory of the graph's host storages.
  void run() const;

 private:
  AotiLibrary code_;
  std::vector<at::Tensor> arguments_;
  std::vector<int> buffers_;   // distinct buffers of the arguments
  std::vector<bool> written_;  // per element of `buffers_`
};

}  // namespace hpu_reference::graph
