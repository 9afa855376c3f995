#include "graph/aoti_library.h"

#include <c10/util/Exception.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

namespace hpu_reference::graph {

// Does not use the option `run_single_threaded`, because two streams may launch the same recipe at once.
AotiLibrary::AotiLibrary(const std::string& path, size_t num_arguments)
    : path_(path),
      num_arguments_(num_arguments),
      runner_(std::make_unique<torch::inductor::AOTIModelContainerRunnerCpu>(path, /*num_models=*/1)) {
}

AotiLibrary::~AotiLibrary() = default;

std::vector<at::Tensor> AotiLibrary::run(const std::vector<at::Tensor>& arguments) const {
  TORCH_CHECK(arguments.size() == num_arguments_,
              "fused code ",
              path_,
              " takes ",
              num_arguments_,
              " tensors, got ",
              arguments.size());
  return runner_->run(arguments);
}

}  // namespace hpu_reference::graph
