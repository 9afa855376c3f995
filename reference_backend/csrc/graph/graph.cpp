#include "graph/graph.h"

#include <atomic>
#include <sstream>

#include "memory/allocator.h"
#include "runtime/stream.h"

namespace hpu_reference::graph {

namespace {

std::atomic<std::uint64_t> g_epoch{1};

void print_value(std::ostream& out, const Graph& graph, const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor& tensor = value.toTensor();
    const int buffer = graph.buffer_of(tensor);
    if (buffer < 0 && tensor.dim() == 0 && tensor.storage().data() != nullptr) {
      out << c10::IValue(tensor.item()) << ':' << c10::toString(tensor.scalar_type());
      return;
    }
    if (buffer < 0) {
      out << "cpu";
    } else {
      out << '%' << buffer;
    }
    out << ':' << c10::toString(tensor.scalar_type()) << tensor.sizes();
    if (!tensor.is_contiguous()) {
      out << " strides " << tensor.strides();
    }
    if (tensor.storage_offset() != 0) {
      out << " offset " << tensor.storage_offset();
    }
  } else if (value.isList()) {
    out << '[';
    const char* comma = "";
    for (const c10::IValue& item : value.toListRef()) {
      out << comma;
      print_value(out, graph, item);
      comma = ", ";
    }
    out << ']';
  } else if (value.isTensor()) {
    out << "None";
  } else {
    out << value;
  }
}

std::string arguments_text(const Graph& graph, const engine::Call& call) {
  std::ostringstream out;
  for (std::size_t i = 0; i < call.arguments.size(); i++) {
    out << (i == 0 ? "" : ", ") << call.op.schema().arguments()[i].name() << '=';
    print_value(out, graph, call.arguments[i]);
  }
  return out.str();
}

std::string new_storages_text(const Graph& graph, const engine::Call& call) {
  std::ostringstream out;
  for (std::size_t i = 0; i < call.new_storages.size(); i++) {
    for (std::size_t j = 0; j < graph.buffers.size(); j++) {
      if (graph.buffers[j].host == call.new_storages[i]) {
        out << (i == 0 ? "" : ", ") << '%' << j;
      }
    }
  }
  return out.str();
}

void collect_uses(const c10::IValue& value, std::size_t argument, bool written, std::vector<Use>& uses) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      uses.push_back({&value.toTensor(), argument, written});
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      collect_uses(item, argument, written, uses);
    }
  }
}

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::Input:
      return "input";
    case Role::Output:
      return "output";
    case Role::Temporary:
      return "temporary";
    default:
      return "constant";
  }
}

int Graph::buffer_of(const at::Tensor& host_tensor) const {
  if (!host_tensor.defined()) {
    return -1;
  }
  return buffer_of(*host_tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

int Graph::buffer_of(const c10::StorageImpl& host) const {
  const auto buffer_position = positions_.find(&host);
  return buffer_position == positions_.end() ? -1 : buffer_position->second;
}

void Graph::index() {
  positions_.clear();
  for (std::size_t i = 0; i < buffers.size(); i++) {
    positions_[buffers[i].host.get()] = static_cast<int>(i);
  }
}

BufferTable::BufferTable() : epoch_(g_epoch++), start_(memory::pool().serial()) {
}

BufferTable::BufferTable(const runtime::CaptureScope& scope) : BufferTable() {
  scope_ = &scope;
  starts_.emplace(runtime::current_stream_id(), start_);
}

void BufferTable::record_stream_start(c10::StreamId stream) {
  if (starts_.count(stream) == 0) {
    starts_.emplace(stream, memory::pool().serial());
  }
}

bool BufferTable::has_buffer_for(const c10::StorageImpl* device) const {
  const memory::Block* block = memory::block_of(device->data_ptr());
  return block != nullptr && block->recorded_in.load(std::memory_order_acquire) == epoch_;
}

// Returns true for memory that was allocated for the recorded calls. In a capture, memory of other streams is
// excluded, because the program may allocate it for other work.
bool BufferTable::was_allocated_in_capture(const memory::Block& block) const {
  if (block.host_written) {
    return false;
  }
  if (scope_ == nullptr) {
    return block.serial > start_;
  }
  const auto stream = starts_.find(block.stream);
  return stream != starts_.end() && block.serial > stream->second;
}

int BufferTable::position(const c10::StorageImpl* device) {
  memory::Block* block = memory::block_of(device->data_ptr());
  if (block == nullptr) {
    return -1;
  }
  if (scope_ != nullptr) {
    if (const auto entry = positions_.find(block->serial); entry != positions_.end()) {
      return entry->second;
    }
  } else if (block->recorded_in.load(std::memory_order_acquire) == epoch_) {
    return block->buffer;
  }
  const int position = static_cast<int>(buffers_.size());
  Buffer buffer;
  buffer.bytes = device->nbytes();
  buffer.role = was_allocated_in_capture(*block) ? Role::Temporary : Role::Input;
  buffer.address = memory::arena().to_host(device->data_ptr().get());
  buffer.resizable = device->resizable();
  if (scope_ != nullptr) {
    buffer.owner = c10::Storage(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(const_cast<c10::StorageImpl*>(device)));
    positions_.emplace(block->serial, position);
    memory::mark_used_later(device);
  } else {
    block->buffer = position;
    block->recorded_in.store(epoch_, std::memory_order_release);
  }
  buffers_.push_back(std::move(buffer));
  blocks_.push_back(block);
  written_.push_back(false);
  return position;
}

engine::HostStorage BufferTable::host(c10::StorageImpl* device) {
  const int buffer_position = position(device);
  return buffer_position < 0 ? engine::make_host_storage(nullptr, 0, device->resizable())
                             : host_at(buffer_position);
}

engine::HostStorage BufferTable::host_at(int position) {
  Buffer& buffer = buffers_[static_cast<std::size_t>(position)];
  if (buffer.host == nullptr) {
    buffer.host = engine::make_host_storage(buffer.address, buffer.bytes, buffer.resizable);
  }
  return buffer.host;
}

memory::AccessSet BufferTable::access_set() const {
  memory::AccessSet access_set;
  for (std::size_t i = 0; i < blocks_.size(); i++) {
    access_set.add(blocks_[i], written_[i], /*freed=*/!is_alive(i));
  }
  return access_set;
}

// Returns the buffer of the storage's present memory, or -1; only for captures.
int BufferTable::present_buffer(const c10::Storage& storage) const {
  const memory::Block* block = memory::block_of(storage.data_ptr());
  const auto entry = block == nullptr ? positions_.end() : positions_.find(block->serial);
  return entry == positions_.end() ? -1 : entry->second;
}

bool BufferTable::has_memory(std::size_t position) const {
  return present_buffer(buffers_[position].owner) == static_cast<int>(position);
}

bool BufferTable::resolve_resized_buffers() {
  std::vector<std::size_t> dead;
  for (std::size_t i = 0; i < buffers_.size(); i++) {
    const c10::Storage& owner = buffers_[i].owner;
    if (!owner || has_memory(i)) {
      continue;
    }
    // A replay cannot repeat a move of memory to another storage. torch moves memory to shrink a storage:
    // torch copies to a new storage, then moves the memory of the new storage into the old storage.
    const int now = present_buffer(owner);
    const bool moved = now >= 0 && buffers_[static_cast<std::size_t>(now)].owner.unsafeGetStorageImpl() !=
                                       owner.unsafeGetStorageImpl();
    if (buffers_[i].role == Role::Input || moved) {
      return false;
    }
    dead.push_back(i);
  }
  for (const std::size_t position : dead) {
    buffers_[position].owner = c10::Storage();
  }
  return true;
}

bool BufferTable::is_alive(std::size_t position) const {
  return blocks_[position]->recorded_in.load(std::memory_order_acquire) == epoch_ &&
         blocks_[position]->buffer == static_cast<int>(position);
}

std::vector<Use> uses_of(const engine::Call& call) {
  std::vector<Use> uses;
  for (std::size_t i = 0; i < call.arguments.size(); i++) {
    collect_uses(call.arguments[i], i, call.plan->written[i], uses);
  }
  return uses;
}

std::string to_text(const Graph& graph) {
  std::ostringstream out;
  out << "graph of " << graph.calls.size() << " operators over " << graph.buffers.size() << " buffers\n";
  for (std::size_t i = 0; i < graph.buffers.size(); i++) {
    out << "  %" << i << " = " << role_name(graph.buffers[i].role) << ", " << graph.buffers[i].bytes
        << " bytes\n";
  }
  for (const engine::Call& call : graph.calls) {
    const std::string results_text = new_storages_text(graph, call);
    out << "  " << results_text << (results_text.empty() ? "" : " = ") << call.plan->name << '('
        << arguments_text(graph, call) << ')' << (call.line.empty() ? "" : "  # " + call.line) << '\n';
  }
  return out.str();
}

std::string to_dot(const Graph& graph) {
  std::ostringstream out;
  out << "digraph recipe {\n  node [fontname=monospace];\n";
  for (std::size_t i = 0; i < graph.buffers.size(); i++) {
    out << "  b" << i << " [shape=ellipse, label=\"%" << i << ' ' << role_name(graph.buffers[i].role) << "\\n"
        << graph.buffers[i].bytes << " bytes\"];\n";
  }
  for (std::size_t i = 0; i < graph.calls.size(); i++) {
    const engine::Call& call = graph.calls[i];
    out << "  c" << i << " [shape=box, label=\"" << i << ": " << call.plan->name << "\"];\n";
    for (const Use& use : uses_of(call)) {
      const int buffer = graph.buffer_of(*use.tensor);
      if (buffer >= 0) {
        out << "  b" << buffer << " -> c" << i << ";\n";
        if (use.written) {
          out << "  c" << i << " -> b" << buffer << " [style=bold];\n";
        }
      }
    }
    for (const engine::HostStorage& new_storage : call.new_storages) {
      for (std::size_t j = 0; j < graph.buffers.size(); j++) {
        if (graph.buffers[j].host == new_storage) {
          out << "  c" << i << " -> b" << j << ";\n";
        }
      }
    }
  }
  out << "}\n";
  return out.str();
}

}  // namespace hpu_reference::graph
