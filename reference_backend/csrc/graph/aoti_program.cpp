#include "graph/aoti_program.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace hpu_reference::graph {

AotiProgram::AotiProgram(const std::string& path,
                         const std::vector<AotiArgument>& arguments,
                         const Graph& graph)
    : code_(path, arguments.size()) {
  for (const AotiArgument& argument : arguments) {
    TORCH_CHECK(argument.buffer >= 0 && argument.buffer < static_cast<int>(graph.buffers.size()),
                "fused code ",
                path,
                " names buffer ",
                argument.buffer,
                " of a graph that has ",
                graph.buffers.size(),
                "; remove its folder from the cache");
    const Buffer& buffer = graph.buffers[static_cast<std::size_t>(argument.buffer)];
    const auto type = c10::scalarTypeToTypeMeta(argument.dtype);
    TORCH_CHECK(argument.offset >= 0 && at::detail::computeStorageNbytes(
                                            argument.sizes,
                                            argument.strides,
                                            type.itemsize(),
                                            static_cast<std::size_t>(argument.offset)) <= buffer.bytes,
                "fused code ",
                path,
                " reaches beyond buffer ",
                argument.buffer,
                "; remove its folder from the cache");
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(buffer.host), c10::DispatchKeySet(c10::DispatchKey::CPU), type);
    impl->set_sizes_and_strides(argument.sizes, argument.strides, argument.offset);
    arguments_.emplace_back(std::move(impl));
    const auto position = std::find(buffers_.begin(), buffers_.end(), argument.buffer);
    if (position == buffers_.end()) {
      buffers_.push_back(argument.buffer);
      written_.push_back(argument.written);
    } else if (argument.written) {
      written_[static_cast<std::size_t>(position - buffers_.begin())] = true;
    }
  }
}

bool AotiProgram::fits(const Graph& graph) const {
  struct Range {
    const char* begin;
    const char* end;
    bool written;
  };
  c10::SmallVector<Range, 32> ranges;
  for (std::size_t i = 0; i < buffers_.size(); i++) {
    const Buffer& buffer = graph.buffers[static_cast<std::size_t>(buffers_[i])];
    const char* begin = static_cast<const char*>(buffer.host->data());
    ranges.push_back({begin, begin + buffer.bytes, written_[i]});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); i++) {
    if (ranges[i].begin < ranges[i - 1].end && (ranges[i].written || ranges[i - 1].written)) {
      return false;
    }
  }
  return true;
}

void AotiProgram::run() const {
  const c10::impl::ForceDispatchKeyGuard guard(
      c10::default_included_set,
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const c10::AutoGradMode mode(false);
  code_.run(arguments_);
}

}  // namespace hpu_reference::graph
