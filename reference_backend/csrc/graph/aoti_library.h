// A shared object with compiled code for a graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace torch::inductor {
class AOTIModelContainerRunnerCpu;
}

namespace hpu_reference::graph {

// A shared object that AOTInductor made from a graph (`internal/fusion`). Runs without the GIL, on any
// thread.
class AotiLibrary {
 public:
  // `num_arguments` is the length of "arguments" in the `convention.json` next to the shared object. run()
  // checks it, because the code would read past the end of a shorter list. Throws c10::Error if the file
  // cannot be loaded.
  AotiLibrary(const std::string& path, size_t num_arguments);
  ~AotiLibrary();
  AotiLibrary(const AotiLibrary&) = delete;
  AotiLibrary& operator=(const AotiLibrary&) = delete;

  // `arguments`: CPU tensors with exactly the dtypes, sizes and strides of `convention.json`. The code writes
  // the arguments with access "update" or "write". The result is empty for code of `internal/fusion`, whose
  // results are arguments too. Threads that run the same code at once are serialized. Throws c10::Error for a
  // wrong number of arguments, and std::runtime_error if the code fails.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& arguments) const;

  const std::string& path() const {
    return path_;
  }

 private:
  std::string path_;
  size_t num_arguments_;
  std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> runner_;
};

}  // namespace hpu_reference::graph
