#include "graph/passes.h"

#include <algorithm>
#include <unordered_map>

#include "engine/call.h"
#include "engine/output_metadata_cache.h"

namespace hpu_reference::graph {

namespace {

constexpr std::size_t kAlignment = 64;

// Returns a table from host storages to the indices of their buffers. A table is used because graphs may have
// many buffers.
std::unordered_map<const c10::StorageImpl*, int> storage_positions(const Graph& graph) {
  std::unordered_map<const c10::StorageImpl*, int> result;
  for (std::size_t i = 0; i < graph.buffers.size(); i++) {
    result[graph.buffers[i].host.get()] = static_cast<int>(i);
  }
  return result;
}

struct Effects {
  std::vector<int> reads;
  std::vector<int> writes;
  std::vector<int> makes;
  bool host_memory = false;  // accesses memory that is not a buffer
};

std::vector<Effects> all_effects(Graph& graph) {
  graph.index();
  const auto table = storage_positions(graph);
  std::vector<Effects> result;
  result.reserve(graph.calls.size());
  for (const engine::Call& call : graph.calls) {
    Effects effects;
    for (const Use& use : uses_of(call)) {
      const int buffer = graph.buffer_of(*use.tensor);
      if (buffer >= 0) {
        effects.reads.push_back(buffer);
        if (use.written) {
          effects.writes.push_back(buffer);
        }
      } else if (use.tensor->numel() > 0 && (use.written || use.tensor->dim() > 0)) {
        effects.host_memory = true;
      }
    }
    for (const engine::HostStorage& new_storage : call.new_storages) {
      const auto match = table.find(new_storage.get());
      if (match != table.end()) {
        effects.makes.push_back(match->second);
      }
    }
    result.push_back(std::move(effects));
  }
  return result;
}

void remove_unmarked_calls(Graph& graph,
                           std::vector<std::size_t>& origin,
                           const std::vector<bool>& is_retained) {
  std::vector<engine::Call> calls;
  std::vector<std::size_t> from;
  for (std::size_t i = 0; i < graph.calls.size(); i++) {
    if (is_retained[i]) {
      calls.push_back(std::move(graph.calls[i]));
      from.push_back(origin[i]);
    }
  }
  graph.calls = std::move(calls);
  origin = std::move(from);
}

template <class T>
void put(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Appends to the key all properties of an argument that determine the call's computation. `versions` counts
// the writes to each buffer.
bool describe(const Graph& graph,
              const c10::IValue& value,
              const std::vector<int>& versions,
              std::string& key) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) {
      key += 'u';
      return true;
    }
    const int buffer = graph.buffer_of(tensor);
    key += 't';
    put(key, tensor.scalar_type());
    put(key,
        static_cast<char>(tensor.is_conj() | tensor.is_neg() << 1 |
                          tensor.unsafeGetTensorImpl()->is_wrapped_number() << 2));
    put(key, tensor.dim());
    for (const auto size : tensor.sizes()) {
      put(key, size);
    }
    for (const auto stride : tensor.strides()) {
      put(key, stride);
    }
    put(key, tensor.storage_offset());
    if (buffer >= 0) {
      put(key, buffer);
      put(key, versions[static_cast<std::size_t>(buffer)]);
      return true;
    }
    if (tensor.dim() != 0) {
      return tensor.numel() == 0;
    }
    key.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.itemsize());
    return true;
  }
  if (value.isList()) {
    const auto list = value.toListRef();
    key += 'l';
    put(key, list.size());
    return std::all_of(list.begin(), list.end(), [&](const c10::IValue& item) {
      return describe(graph, item, versions, key);
    });
  }
  if (value.isNone()) {
    key += 'n';
  } else if (value.isInt()) {
    key += 'i';
    put(key, value.toInt());
  } else if (value.isBool()) {
    key += 'b';
    put(key, value.toBool());
  } else if (value.isDouble()) {
    key += 'd';
    put(key, value.toDouble());
  } else if (value.isComplexDouble()) {
    key += 'c';
    put(key, value.toComplexDouble());
  } else if (value.isString()) {
    key += 's';
    put(key, value.toStringRef().size());
    key += value.toStringRef();
  } else if (value.isDevice()) {
    key += 'v';
  } else {
    return false;
  }
  return true;
}

bool is_pure(const engine::Call& call, const Effects& effects) {
  return !call.is_random() && effects.writes.empty() && !effects.host_memory &&
         !call.output_metadata->results.empty() &&
         std::all_of(call.output_metadata->results.begin(),
                     call.output_metadata->results.end(),
                     [](const engine::Result& result) {
                       return result.kind == engine::Result::Kind::New ||
                              result.kind == engine::Result::Kind::Undefined;
                     });
}

}  // namespace

void remove_dead_calls(Graph& graph, std::vector<std::size_t>& origin) {
  const std::vector<Effects> effects = all_effects(graph);
  std::vector<bool> live;
  for (const Buffer& buffer : graph.buffers) {
    live.push_back(buffer.alive);
  }
  std::vector<bool> is_retained(graph.calls.size(), true);
  for (std::size_t i = graph.calls.size(); i-- > 0;) {
    const auto needed = [&](int buffer) { return live[static_cast<std::size_t>(buffer)]; };
    const Effects& effect = effects[i];
    const bool without_trace = effect.writes.empty() && effect.makes.empty();  // an assertion, for example
    if (!without_trace && !effect.host_memory &&
        std::none_of(effect.writes.begin(), effect.writes.end(), needed) &&
        std::none_of(effect.makes.begin(), effect.makes.end(), needed)) {
      is_retained[i] = false;
      continue;
    }
    for (const int buffer : effect.makes) {
      live[static_cast<std::size_t>(buffer)] = false;  // the buffer does not exist before this call
    }
    for (const int buffer : effect.reads) {
      live[static_cast<std::size_t>(buffer)] = true;
    }
  }
  remove_unmarked_calls(graph, origin, is_retained);
}

void merge_common_calls(Graph& graph, std::vector<std::size_t>& origin, bool lifted) {
  const std::vector<Effects> effects = all_effects(graph);
  // For each buffer, the number of calls in the whole graph that write it, except the call that creates it.
  std::vector<int> writes(graph.buffers.size(), 0);
  for (const Effects& effect : effects) {
    for (const int buffer : effect.writes) {
      writes[static_cast<std::size_t>(buffer)]++;
    }
  }
  std::vector<int> versions(graph.buffers.size(), 0);
  std::unordered_map<std::string, std::size_t> first;
  std::unordered_map<const c10::StorageImpl*, engine::HostStorage> replaced;
  std::vector<bool> is_retained(graph.calls.size(), true);
  for (std::size_t i = 0; i < graph.calls.size(); i++) {
    engine::Call& call = graph.calls[i];
    for (const Use& use : uses_of(call)) {
      c10::TensorImpl* impl = use.tensor->unsafeGetTensorImpl();
      const auto match = replaced.find(impl->unsafe_storage().unsafeGetStorageImpl());
      if (match != replaced.end()) {
        impl->set_storage_keep_dtype(c10::Storage(match->second));
      }
    }
    const Effects& effect = effects[i];
    const auto unwritten = [&](int buffer) { return writes[static_cast<std::size_t>(buffer)] == 0; };
    if (is_pure(call, effect) && (!lifted || call.lifted.empty()) &&
        std::all_of(effect.makes.begin(), effect.makes.end(), unwritten)) {
      std::string key;
      put(key, call.plan);
      put(key, call.output_metadata->id);
      bool has_key = true;
      for (const c10::IValue& argument : call.arguments) {
        has_key = has_key && describe(graph, argument, versions, key);
      }
      const auto dead = [&](int buffer) {
        return graph.buffers[static_cast<std::size_t>(buffer)].role == Role::Temporary;
      };
      if (has_key) {
        const auto [entry, added] = first.emplace(std::move(key), i);
        if (!added && std::all_of(effect.makes.begin(), effect.makes.end(), dead)) {
          const engine::Call& same = graph.calls[entry->second];
          for (std::size_t j = 0; j < call.new_storages.size(); j++) {
            replaced[call.new_storages[j].get()] = same.new_storages[j];
          }
          is_retained[i] = false;
          continue;
        }
      }
    }
    for (const int buffer : effect.writes) {
      versions[static_cast<std::size_t>(buffer)]++;
    }
  }
  remove_unmarked_calls(graph, origin, is_retained);
}

void fold_constants(Graph& graph, std::vector<std::size_t>& origin, bool lifted) {
  const std::vector<Effects> effects = all_effects(graph);
  std::vector<bool> written(graph.buffers.size(), false);
  for (const Effects& effect : effects) {
    for (const int buffer : effect.writes) {
      written[static_cast<std::size_t>(buffer)] = true;
    }
  }
  std::vector<bool> is_retained(graph.calls.size(), true);
  for (std::size_t i = 0; i < graph.calls.size(); i++) {
    const engine::Call& call = graph.calls[i];
    const Effects& effect = effects[i];
    const auto constant = [&](int buffer) {
      return graph.buffers[static_cast<std::size_t>(buffer)].role == Role::Constant;
    };
    const auto foldable = [&](int buffer) {
      return graph.buffers[static_cast<std::size_t>(buffer)].role == Role::Temporary &&
             !written[static_cast<std::size_t>(buffer)];
    };
    if (!is_pure(call, effect) || (lifted && !call.lifted.empty()) ||
        !std::all_of(effect.reads.begin(), effect.reads.end(), constant) || effect.makes.empty() ||
        !std::all_of(effect.makes.begin(), effect.makes.end(), foldable)) {
      continue;
    }
    for (const int position : effect.makes) {
      Buffer& buffer = graph.buffers[static_cast<std::size_t>(position)];
      buffer.role = Role::Constant;
      buffer.host->set_data_ptr_noswap(c10::GetAllocator(c10::DeviceType::CPU)->allocate(buffer.bytes));
    }
    try {
      call.run();
    } catch (const c10::Error&) {  // ignored here, because the launch throws the error again
      for (const int position : effect.makes) {
        graph.buffers[static_cast<std::size_t>(position)].role = Role::Temporary;
      }
      continue;
    }
    is_retained[i] = false;
  }
  remove_unmarked_calls(graph, origin, is_retained);
}

std::size_t plan_memory(const Graph& graph, std::vector<std::size_t>& offsets) {
  struct Interval {
    int buffer;
    std::size_t begin;
    std::size_t end;
    std::size_t bytes;
  };
  std::vector<Interval> intervals(graph.buffers.size());
  std::vector<bool> is_used(graph.buffers.size(), false);
  const auto extend = [&](int buffer, std::size_t time) {
    const auto at = static_cast<std::size_t>(buffer);
    if (graph.buffers[at].role != Role::Temporary) {
      return;
    }
    if (!is_used[at]) {
      is_used[at] = true;
      const std::size_t bytes = (graph.buffers[at].bytes + kAlignment - 1) / kAlignment * kAlignment;
      intervals[at] = {buffer, time, time, bytes};
    }
    intervals[at].end = time;
  };
  const auto table = storage_positions(graph);
  for (std::size_t i = 0; i < graph.calls.size(); i++) {
    for (const Use& use : uses_of(graph.calls[i])) {
      if (const int buffer = graph.buffer_of(*use.tensor); buffer >= 0) {
        extend(buffer, i);
      }
    }
    for (const engine::HostStorage& new_storage : graph.calls[i].new_storages) {
      if (const auto match = table.find(new_storage.get()); match != table.end()) {
        extend(match->second, i);
      }
    }
  }
  std::vector<Interval> order;
  for (std::size_t i = 0; i < intervals.size(); i++) {
    if (is_used[i]) {
      order.push_back(intervals[i]);
    }
  }
  std::sort(order.begin(), order.end(), [](const Interval& a, const Interval& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
  });
  offsets.assign(graph.buffers.size(), 0);
  std::size_t total = 0;
  std::vector<Interval> placed_intervals;
  for (const Interval& interval : order) {
    // Place the buffer in the lowest sufficient gap between the placed buffers that are live at the same
    // time.
    std::vector<std::pair<std::size_t, std::size_t>> occupied;
    for (const Interval& placed : placed_intervals) {
      if (placed.begin <= interval.end && interval.begin <= placed.end) {
        const std::size_t start = offsets[static_cast<std::size_t>(placed.buffer)];
        occupied.emplace_back(start, start + placed.bytes);
      }
    }
    std::sort(occupied.begin(), occupied.end());
    std::size_t offset = 0;
    for (const auto& [start, end] : occupied) {
      if (offset + interval.bytes <= start) {
        break;
      }
      offset = std::max(offset, end);
    }
    offsets[static_cast<std::size_t>(interval.buffer)] = offset;
    total = std::max(total, offset + interval.bytes);
    placed_intervals.push_back(interval);
  }
  return total;
}

}  // namespace hpu_reference::graph
