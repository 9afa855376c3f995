// The common graph format: calls in order, over buffers. Lazy mode, captures and (through a capture)
// torch.compile create graphs. Passes change graphs, and recipes run them.
//
// Views are not calls: the sizes, strides and offsets of the calls' tensors represent them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/call.h"
#include "memory/access_set.h"
#include "runtime/capture_scope.h"

namespace hpu_reference::graph {

// The role of a buffer in its graph.
enum class Role : std::uint8_t {
  Input,      // allocated before the graph; keeps all bytes that the graph does not write
  Output,     // allocated by the graph and alive after it
  Temporary,  // allocated by the graph and freed before its end
  Constant,   // folded: the contents are known before a launch
};

// Returns the name of the role for dumps.
const char* role_name(Role role);

// An allocation that calls use.
struct Buffer {
  std::size_t bytes = 0;
  Role role = Role::Input;
  bool alive = true;         // true if the buffer is alive after the graph
  bool resizable = true;     // true if the buffer's storage is resizable
  engine::HostStorage host;  // the storage of the calls' tensors
  void* address = nullptr;   // host address while recording
  c10::Storage owner;        // only in captures: retains the memory
};

// A sequence of calls, and the buffers that the calls use.
struct Graph {
  std::vector<Buffer> buffers;
  std::vector<engine::Call> calls;

  // Returns the index of the buffer of a call's tensor, or -1 if the tensor has no memory or has host memory.
  int buffer_of(const at::Tensor& host_tensor) const;
  // Returns the index of the buffer of a host storage, or -1.
  int buffer_of(const c10::StorageImpl& host) const;
  // Updates the index that buffer_of() uses, after buffers or their host storages have changed.
  void index();

 private:
  std::unordered_map<const c10::StorageImpl*, int> positions_;
};

// Assigns buffers to the device storages of the calls that are being recorded. A buffer is one allocation:
// memory that is freed and allocated again during the recording gets a new buffer.
class BufferTable {
 public:
  // Creates the table of lazy mode. Lazy mode has one table at a time.
  BufferTable();
  // Creates the table of a capture. Several captures may run at once, and each retains its buffers' memory.
  explicit BufferTable(const runtime::CaptureScope& scope);

  // Records the first captured call on a stream; only for captures. Memory that is allocated on the stream
  // from now on may belong to the graph. Memory that the stream allocated before it joined the capture is an
  // input.
  void record_stream_start(c10::StreamId stream);

  // Returns the index of the storage's buffer, adding a buffer if needed. Returns -1 if the storage has no
  // memory.
  int position(const c10::StorageImpl* device);
  // Returns the host storage of the buffer that the device storage has in this table.
  engine::HostStorage host(c10::StorageImpl* device);
  // Returns the host storage of the buffer at this index.
  engine::HostStorage host_at(int position);

  // Returns true if the storage has a buffer in this table.
  bool has_buffer_for(const c10::StorageImpl* device) const;
  std::vector<Buffer>& buffers() {
    return buffers_;
  }
  // Records that a recorded call writes the buffer.
  void mark_written(int position) {
    written_[static_cast<std::size_t>(position)] = true;
  }
  // Returns the memory that the recorded calls use.
  memory::AccessSet access_set() const;
  // Handles resized storages at the end of a capture. If a buffer was allocated in the capture and its
  // storage has other memory now, the buffer becomes a temporary of the graph. Returns false if the storage
  // of any other buffer was resized: a replay cannot repeat that.
  bool resolve_resized_buffers();
  // Returns true if the buffer's storage still has the memory of the buffer; only for captures.
  bool has_memory(std::size_t position) const;
  // Returns true if the buffer's memory still belongs to the same tensor.
  bool is_alive(std::size_t position) const;
  // Returns the number of this recording, as in Block::recorded_in.
  std::uint64_t epoch() const {
    return epoch_;
  }

 private:
  bool was_allocated_in_capture(const memory::Block& block) const;
  int present_buffer(const c10::Storage& storage) const;

  std::uint64_t epoch_;
  std::uint64_t start_;                                      // allocation number when the recording starts
  std::unordered_map<c10::StreamId, std::uint64_t> starts_;  // allocation number at each stream's first call
  const runtime::CaptureScope* scope_ = nullptr;
  std::vector<Buffer> buffers_;
  std::vector<memory::Block*> blocks_;
  std::vector<bool> written_;
  std::unordered_map<std::uint64_t, int> positions_;  // only in captures: buffer index by allocation number
};

// Returns the graph as readable text.
std::string to_text(const Graph& graph);
// Returns the graph in the DOT format of Graphviz.
std::string to_dot(const Graph& graph);

// A tensor argument, its index in the schema, and whether the call writes it.
struct Use {
  const at::Tensor* tensor;
  std::size_t argument;
  bool written;
};
// Returns all tensor arguments of a call, in order.
std::vector<Use> uses_of(const engine::Call& call);

}  // namespace hpu_reference::graph
