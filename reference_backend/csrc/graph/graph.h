// The one form of a graph: calls in order, over buffers. Lazy mode, captures and (through a capture)
// torch.compile make it; the passes change it; a recipe runs it.
//
// Views are not calls: they are in the sizes, strides and offsets of the tensors that the calls have.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/call.h"
#include "memory/block_pool.h"

namespace hpu_reference::graph {

enum class Role : std::uint8_t {
  Input,      // memory from before the graph; keeps what the graph does not write
  Output,     // made by the graph and alive after it
  Temporary,  // made by the graph and dead before its end
  Constant,   // folded: its contents are known before a launch
};

const char* word(Role role);

struct Buffer {
  std::size_t bytes = 0;
  Role role = Role::Input;
  bool alive = true;         // after the graph
  engine::HostStorage host;  // what the calls' tensors refer to
  void* address = nullptr;   // on the host, while recording
  c10::Storage owner;        // of captures: keeps the memory
};

struct Graph {
  std::vector<Buffer> buffers;
  std::vector<engine::Call> calls;

  // The buffer of a tensor of a call; -1: none (no memory, or host memory).
  int buffer_of(const at::Tensor& host_tensor) const;
  void index();  // after buffers or their host storages have changed

 private:
  std::unordered_map<const c10::StorageImpl*, int> positions_;
};

// Gives buffers to the device storages of the calls that are being recorded. A buffer is one allocation:
// memory that is freed and handed out again while recording is another one.
class BufferTable {
 public:
  explicit BufferTable(bool keeps_memory);

  // Position of the storage's buffer, made where it is new; -1 where the storage has no memory.
  int position(const c10::StorageImpl* device);
  engine::HostStorage host(c10::StorageImpl* device);

  bool holds(const c10::StorageImpl* device) const;
  std::vector<Buffer>& buffers() {
    return buffers_;
  }
  // Whether the buffer's memory is still the same tensor's.
  bool is_alive(std::size_t position) const;
  std::uint64_t epoch() const {
    return epoch_;
  }

 private:
  std::uint64_t epoch_;
  std::uint64_t start_;  // allocations after this one were made while recording
  bool keeps_memory_;
  std::vector<Buffer> buffers_;
  std::vector<memory::Block*> blocks_;
};

// A person's view of a graph.
std::string to_text(const Graph& graph);
std::string to_dot(const Graph& graph);

// A tensor argument, its position in the schema, and whether the call writes it.
struct Use {
  const at::Tensor* tensor;
  std::size_t argument;
  bool written;
};
std::vector<Use> uses_of(const engine::Call& call);

}  // namespace hpu_reference::graph
