#include "graph/io_binding.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "device_key.h"
#include "kernels/host_call.h"
#include "memory/allocator.h"

namespace hpu_reference::graph {

namespace {

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

engine::Result metadata_of(const at::Tensor& tensor) {
  engine::Result result;
  result.kind = engine::Result::Kind::New;
  result.dtype = tensor.scalar_type();
  result.sizes = tensor.sizes();
  result.strides = tensor.strides();
  result.offset = tensor.storage_offset();
  result.conj = tensor.is_conj();
  result.neg = tensor.is_neg();
  return result;
}

std::int64_t itemsize_of(const engine::Result& metadata) {
  return static_cast<std::int64_t>(c10::scalarTypeToTypeMeta(metadata.dtype).itemsize());
}

at::Tensor make_tensor(const c10::Storage& storage, const engine::Result& metadata, std::int64_t offset) {
  c10::DispatchKeySet keys(c10::DispatchKey::DEVICE_KEY);
  if (metadata.conj) {
    keys = keys.add(c10::DispatchKey::Conjugate);
  }
  if (metadata.neg) {
    keys = keys.add(c10::DispatchKey::Negative);
  }
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage), keys, c10::scalarTypeToTypeMeta(metadata.dtype));
  impl->set_sizes_and_strides(metadata.sizes, metadata.strides, offset);
  return at::Tensor(std::move(impl));
}

// Returns, for each buffer, the range of bytes that calls access; {SIZE_MAX, 0} if no call accesses it.
std::vector<std::pair<std::size_t, std::size_t>> accessed_bytes_of(const Graph& graph) {
  std::vector<std::pair<std::size_t, std::size_t>> accessed_bytes(graph.buffers.size(), {SIZE_MAX, 0});
  for (const engine::Call& call : graph.calls) {
    for (const Use& use : uses_of(call)) {
      const int buffer = graph.buffer_of(*use.tensor);
      if (buffer >= 0 && use.tensor->numel() > 0) {
        auto& [begin, end] = accessed_bytes[static_cast<std::size_t>(buffer)];
        const auto offset = static_cast<std::size_t>(use.tensor->storage_offset());
        begin = std::min(begin, offset * use.tensor->itemsize());
        end = std::max(end,
                       at::detail::computeStorageNbytes(
                           use.tensor->sizes(), use.tensor->strides(), use.tensor->itemsize(), offset));
      }
    }
  }
  return accessed_bytes;
}

}  // namespace

c10::Storage allocate_device_storage(std::size_t bytes, bool in_order) {
  return {c10::Storage::use_byte_size_t(),
          bytes,
          memory::allocate_device(bytes, in_order),
          memory::device_allocator(),
          /*resizable=*/true};
}

void require_dense(const at::Tensor& tensor, const char* description) {
  TORCH_CHECK(tensor.defined() && kernels::is_device_tensor(tensor) && tensor.has_storage() &&
                  tensor.layout() == c10::kStrided,
              description,
              " of an HPU graph must be dense tensors on " DEVICE_NAME "; move or convert the others first");
}

IoBinding::IoBinding(const Graph& recorded,
                     const std::vector<at::Tensor>& inputs,
                     const std::vector<at::Tensor>& outputs) {
  std::unordered_map<const c10::StorageImpl*, int> positions;
  for (std::size_t i = 0; i < recorded.buffers.size(); i++) {
    positions[recorded.buffers[i].owner.unsafeGetStorageImpl()] = static_cast<int>(i);
  }
  const auto slot_of = [&](const at::Tensor& tensor, const char* description) {
    require_dense(tensor, description);
    Slot slot;
    const auto position = positions.find(storage_of(tensor));
    slot.buffer = position == positions.end() ? -1 : position->second;
    slot.metadata = metadata_of(tensor);
    slot.bytes = storage_of(tensor)->nbytes();
    if (slot.buffer >= 0) {  // the storage may have been resized since the capture
      slot.bytes = std::max(slot.bytes, recorded.buffers[static_cast<std::size_t>(slot.buffer)].bytes);
    }
    return slot;
  };
  const auto accessed_bytes = accessed_bytes_of(recorded);
  std::unordered_map<const c10::StorageImpl*, std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    Slot slot = slot_of(inputs[i], "inputs");
    slot.first = first.emplace(storage_of(inputs[i]), i).first->second;
    if (slot.first != i) {
      slot.unique = inputs_[slot.first].unique = false;
    }
    if (slot.buffer >= 0 && accessed_bytes[static_cast<std::size_t>(slot.buffer)].second > 0) {
      std::tie(slot.begin, slot.end) = accessed_bytes[static_cast<std::size_t>(slot.buffer)];
    }
    inputs_.push_back(std::move(slot));
  }
  for (const at::Tensor& tensor : outputs) {
    Slot slot = slot_of(tensor, "outputs");
    if (const auto position = first.find(storage_of(tensor)); position != first.end()) {
      slot.input = static_cast<int>(position->second);
    } else if (slot.buffer < 0 ||
               recorded.buffers[static_cast<std::size_t>(slot.buffer)].role == Role::Input) {
      slot.captured_output = tensor.detach();
    }
    outputs_.push_back(std::move(slot));
  }
  for (const Buffer& buffer : recorded.buffers) {
    const c10::StorageImpl* storage = buffer.owner.unsafeGetStorageImpl();
    if (buffer.role == Role::Input && first.count(storage) == 0) {
      unbound_storages_.insert(storage);
    }
  }
}

bool IoBinding::fits(const Slot& slot, const at::Tensor& tensor) {
  const engine::Result& metadata = slot.metadata;
  return tensor.defined() && kernels::is_device_tensor(tensor) && tensor.layout() == c10::kStrided &&
         tensor.scalar_type() == metadata.dtype && tensor.sizes() == metadata.sizes &&
         tensor.strides() == metadata.strides && tensor.is_conj() == metadata.conj &&
         tensor.is_neg() == metadata.neg && (slot.unique || tensor.storage_offset() == metadata.offset);
}

// Returns how many bytes further into its storage the input lies than the captured input.
std::int64_t IoBinding::shift(const std::vector<at::Tensor>& inputs, std::size_t input) const {
  return (inputs[input].storage_offset() - inputs_[input].metadata.offset) *
         static_cast<std::int64_t>(inputs[input].itemsize());
}

std::string IoBinding::rejection_reason(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) {
    return "the graph was captured with " + std::to_string(inputs_.size()) + " inputs and got " +
           std::to_string(inputs.size());
  }
  std::unordered_map<const c10::StorageImpl*, std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    if (!fits(inputs_[i], inputs[i])) {
      return "input " + std::to_string(i) + " differs in size, stride, dtype or device";
    }
    const c10::StorageImpl* storage = storage_of(inputs[i]);
    const bool memory = storage->data_ptr().get() != nullptr;
    if (memory && first.emplace(storage, i).first->second != inputs_[i].first) {
      return "input " + std::to_string(i) + " does not share memory with the same inputs as in the capture";
    }
    if (unbound_storages_.count(storage) != 0) {
      return "input " + std::to_string(i) +
             " shares memory with a tensor that the graph uses and that call() does not replace";
    }
    // Calls may access the memory of the captured input through other views, so they may access bytes outside
    // the input tensor.
    if (shift(inputs, i) + static_cast<std::int64_t>(inputs_[i].begin) < 0 ||
        shift(inputs, i) + static_cast<std::int64_t>(inputs_[i].end) >
            static_cast<std::int64_t>(storage->nbytes())) {
      return "input " + std::to_string(i) +
             " lies too close to an end of its storage: calls of the graph would access bytes outside the "
             "storage";
    }
  }
  for (const Slot& slot : outputs_) {
    if (slot.input >= 0) {
      const auto input = static_cast<std::size_t>(slot.input);
      if (shift(inputs, input) % itemsize_of(slot.metadata) != 0) {
        return "input " + std::to_string(input) +
               " does not begin at an address that is aligned for a result of another dtype";
      }
    }
  }
  return "";
}

std::vector<bool> IoBinding::buffers_of(const std::vector<Slot>& slots, std::size_t buffers) {
  std::vector<bool> result(buffers, false);
  for (const Slot& slot : slots) {
    if (slot.buffer >= 0) {
      result[static_cast<std::size_t>(slot.buffer)] = true;
    }
  }
  return result;
}

std::vector<bool> IoBinding::input_buffers(std::size_t buffers) const {
  return buffers_of(inputs_, buffers);
}

std::vector<bool> IoBinding::output_buffers(std::size_t buffers) const {
  return buffers_of(outputs_, buffers);
}

void IoBinding::place_inputs(const std::vector<at::Tensor>& inputs, std::vector<void*>& addresses) const {
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const int buffer = inputs_[i].buffer;
    if (buffer >= 0 && inputs_[i].first == i) {
      memory::mark_used_later(storage_of(inputs[i]));
      const void* data = storage_of(inputs[i])->data_ptr().get();
      addresses[static_cast<std::size_t>(buffer)] =
          static_cast<char*>(memory::arena().to_host(const_cast<void*>(data))) + shift(inputs, i);
    }
  }
}

void IoBinding::add_inputs(const std::vector<at::Tensor>& inputs,
                           const Recipe& recipe,
                           memory::AccessSet& access_set) const {
  for (std::size_t i = 0; i < inputs.size(); i++) {
    if (inputs_[i].buffer >= 0) {
      access_set.add(storage_of(inputs[i]), recipe.writes(static_cast<std::size_t>(inputs_[i].buffer)));
    }
  }
}

std::vector<c10::Storage> IoBinding::place_outputs(std::vector<void*>& addresses) const {
  std::vector<c10::Storage> new_storages(addresses.size());
  for (const Slot& slot : outputs_) {
    const auto buffer = static_cast<std::size_t>(slot.buffer);
    if (is_new_output(slot) && !new_storages[buffer]) {
      new_storages[buffer] = allocate_device_storage(slot.bytes);
      memory::mark_used_later(new_storages[buffer].unsafeGetStorageImpl());
      addresses[buffer] = memory::arena().to_host(new_storages[buffer].mutable_data());
    }
  }
  return new_storages;
}

std::vector<at::Tensor> IoBinding::outputs(const std::vector<at::Tensor>& inputs,
                                           const std::vector<c10::Storage>& new_storages) const {
  std::vector<at::Tensor> results;
  results.reserve(outputs_.size());
  for (const Slot& slot : outputs_) {
    if (slot.captured_output.defined()) {
      results.push_back(slot.captured_output.detach());
    } else if (slot.input >= 0) {
      const auto input = static_cast<std::size_t>(slot.input);
      results.push_back(
          make_tensor(inputs[input].storage(),
                      slot.metadata,
                      slot.metadata.offset + shift(inputs, input) / itemsize_of(slot.metadata)));
    } else {
      results.push_back(make_tensor(
          new_storages[static_cast<std::size_t>(slot.buffer)], slot.metadata, slot.metadata.offset));
    }
  }
  return results;
}

}  // namespace hpu_reference::graph
