#include "graph/graph_predictor.h"

#include <cstring>
#include <utility>

namespace hpu_reference::graph {

namespace {

constexpr std::size_t kMaxFirstCalls = 4096;

// Recreates the tensors of a call on other buffers. A tensor that occurs twice is recreated once.
class Rebinding {
 public:
  Rebinding(const Graph& graph, BufferTable& buffers) : graph_(graph), buffers_(buffers) {
  }

  c10::IValue operator()(const c10::IValue& value) {
    if (value.isTensor()) {
      return tensor(value.toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> result;
      for (const c10::IValue& item : value.toListRef()) {
        result.push_back(tensor(item.toTensor()));
      }
      return result;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> result;
      for (const c10::IValue& item : value.toListRef()) {
        result.push_back(item.isNone() ? std::nullopt : std::make_optional(tensor(item.toTensor())));
      }
      return result;
    }
    return value;
  }

 private:
  at::Tensor tensor(const at::Tensor& recorded) {
    const int buffer = graph_.buffer_of(recorded);
    if (buffer < 0) {
      return recorded;  // the argument is not a tensor, or a tensor without memory
    }
    for (const auto& [before, after] : done_) {
      if (before == recorded.unsafeGetTensorImpl()) {
        return after;
      }
    }
    c10::TensorImpl* source = recorded.unsafeGetTensorImpl();
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(buffers_.host_at(buffer)), source->key_set(), source->dtype());
    impl->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
    if (source->is_wrapped_number()) {
      impl->set_wrapped_number(true);
    }
    if (recorded.requires_grad()) {
      impl->set_requires_grad(true);
    }
    at::Tensor copy(std::move(impl));
    done_.emplace_back(source, copy);
    return copy;
  }

  const Graph& graph_;
  BufferTable& buffers_;
  c10::SmallVector<std::pair<const c10::TensorImpl*, at::Tensor>, 6> done_;
};

}  // namespace

PredictedGraph::PredictedGraph(Graph&& graph, std::string key, std::uint64_t removals)
    : graph_(std::move(graph)), key_(std::move(key)), removals_(removals) {
  graph_.index();
  for (const engine::Call& call : graph_.calls) {
    has_random_ |= call.is_random();
  }
}

engine::OutputMetadataPtr PredictedGraph::output_metadata(std::size_t position,
                                                          const std::string& key) const {
  if (position >= size()) {
    return nullptr;
  }
  const engine::OutputMetadataPtr& expected = graph_.calls[position].output_metadata;
  return expected->key == key ? expected : nullptr;
}

bool PredictedGraph::continues(const std::string& recorded, std::size_t start, std::size_t position) const {
  return position < size() && recorded.size() <= key_.size() &&
         std::memcmp(recorded.data() + start, key_.data() + start, recorded.size() - start) == 0;
}

std::vector<engine::Call> PredictedGraph::make_calls(std::size_t count,
                                                     BufferTable& buffers,
                                                     const std::vector<std::uint64_t>& seeds,
                                                     const std::vector<c10::IValue>& lifted) const {
  std::vector<engine::Call> calls;
  calls.reserve(count);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; i++) {
    engine::Call call = graph_.calls[i];
    Rebinding rebind(graph_, buffers);
    for (c10::IValue& argument : call.arguments) {
      argument = rebind(argument);
    }
    for (const int position : call.lifted) {
      call.arguments[static_cast<std::size_t>(position)] = lifted[next++];
    }
    std::vector<engine::HostStorage> new_storages;
    for (const engine::HostStorage& recorded : graph_.calls[i].new_storages) {
      const int buffer = graph_.buffer_of(*recorded);
      new_storages.push_back(buffer < 0 ? recorded : buffers.host_at(buffer));
    }
    engine::set_new_storages(call, std::move(new_storages));
    call.seed = seeds[i];
    calls.push_back(std::move(call));
  }
  return calls;
}

std::shared_ptr<CacheEntry> GraphPredictor::next() const {
  const std::shared_ptr<CacheEntry> last = last_.lock();
  std::shared_ptr<CacheEntry> entry = last == nullptr ? nullptr : last->next.lock();
  return entry != nullptr && entry->predicted_graph != nullptr && entry->predicted_graph->is_valid()
             ? entry
             : nullptr;
}

std::shared_ptr<CacheEntry> GraphPredictor::starting_with(std::uint64_t metadata_id) const {
  const auto entry_position = first_.find(metadata_id);
  std::shared_ptr<CacheEntry> entry =
      entry_position == first_.end() ? nullptr : entry_position->second.lock();
  return entry != nullptr && entry->predicted_graph->is_valid() ? entry : nullptr;
}

void GraphPredictor::launched(const std::shared_ptr<CacheEntry>& entry) {
  if (const std::shared_ptr<CacheEntry> last = last_.lock()) {
    last->next = entry;
  }
  last_ = entry;
}

void GraphPredictor::add(std::uint64_t metadata_id, const std::shared_ptr<CacheEntry>& entry) {
  if (first_.size() >= kMaxFirstCalls) {
    first_.clear();
  }
  first_[metadata_id] = entry;
}

}  // namespace hpu_reference::graph
