// The one form of a graph: calls in order, over buffers. Lazy mode, captures and (through a capture)
// torch.compile make it; the passes change it; a recipe runs it.
//
// Views are not calls: they are in the sizes, strides and offsets of the tensors that the calls have.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/call.h"
#include "memory/access_set.h"
#include "runtime/capture_scope.h"

namespace hpu_reference::graph {

// The part that a buffer plays in its graph.
enum class Role : std::uint8_t {
  Input,      // memory from before the graph; keeps what the graph does not write
  Output,     // made by the graph and alive after it
  Temporary,  // made by the graph and dead before its end
  Constant,   // folded: its contents are known before a launch
};

// The role as a word.
const char* role_name(Role role);

// One allocation that calls use.
struct Buffer {
  std::size_t bytes = 0;
  Role role = Role::Input;
  bool alive = true;         // after the graph
  bool resizable = true;     // its storage
  engine::HostStorage host;  // what the calls' tensors refer to
  void* address = nullptr;   // on the host, while recording
  c10::Storage owner;        // of captures: keeps the memory
};

// Calls in order, over buffers.
struct Graph {
  std::vector<Buffer> buffers;
  std::vector<engine::Call> calls;

  // Position of the buffer of a call's tensor; -1 if it has none (no memory, or host memory).
  int buffer_of(const at::Tensor& host_tensor) const;
  // The same of a host storage.
  int buffer_of(const c10::StorageImpl& host) const;
  // Updates buffer_of(), after buffers or their host storages have changed.
  void index();

 private:
  std::unordered_map<const c10::StorageImpl*, int> positions_;
};

// Assigns buffers to the device storages of the calls that are being recorded. A buffer is one allocation:
// memory that is freed and handed out again while recording is another one.
class BufferTable {
 public:
  // A table of lazy mode, which has one at a time.
  BufferTable();
  // The table of a capture, which may be one of several and keeps the buffers' memory.
  explicit BufferTable(const runtime::CaptureScope& scope);

  // Of a capture, before a call on the stream: what is allocated there from its first one on may be the
  // graph's own. A stream that joined later brings memory from before.
  void record_stream_start(c10::StreamId stream);

  // Position of the storage's buffer, a new one if needed; -1 if the storage has no memory.
  int position(const c10::StorageImpl* device);
  // Host storage of the storage's buffer.
  engine::HostStorage host(c10::StorageImpl* device);
  // Host storage of the buffer at a position.
  engine::HostStorage host_at(int position);

  // True if the storage has a buffer here.
  bool has_buffer_for(const c10::StorageImpl* device) const;
  std::vector<Buffer>& buffers() {
    return buffers_;
  }
  // Remembers that a recorded call writes the buffer.
  void mark_written(int position) {
    written_[static_cast<std::size_t>(position)] = true;
  }
  // The memory that the recorded calls use.
  memory::AccessSet access_set() const;
  // At the end of a capture: a buffer that the capture has made, and whose storage was given other memory
  // since, dies in the graph. False if another one's storage was, which a replay cannot repeat.
  bool resolve_resized_buffers();
  // Of a capture: true if the buffer's storage still has its memory.
  bool has_memory(std::size_t position) const;
  // True if the buffer's memory still belongs to the same tensor.
  bool is_alive(std::size_t position) const;
  // Number of this recording, as in Block::recorded_in.
  std::uint64_t epoch() const {
    return epoch_;
  }

 private:
  bool was_allocated_in_capture(const memory::Block& block) const;
  int present_buffer(const c10::Storage& storage) const;

  std::uint64_t epoch_;
  std::uint64_t start_;  // allocations after this one were made while recording
  std::unordered_map<c10::StreamId, std::uint64_t> starts_;  // the same of each stream of a capture
  const runtime::CaptureScope* scope_ = nullptr;
  std::vector<Buffer> buffers_;
  std::vector<memory::Block*> blocks_;
  std::vector<bool> written_;
  std::unordered_map<std::uint64_t, int> positions_;  // of captures, by the allocation's number
};

// The graph as text for people.
std::string to_text(const Graph& graph);
// The graph for Graphviz.
std::string to_dot(const Graph& graph);

// A tensor argument, its position in the schema, and true if the call writes it.
struct Use {
  const at::Tensor* tensor;
  std::size_t argument;
  bool written;
};
// All tensor arguments of a call, in order.
std::vector<Use> uses_of(const engine::Call& call);

}  // namespace hpu_reference::graph
