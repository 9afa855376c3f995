// IO binding: the replacement of a captured graph's input and output tensors at each call. Other tensors
// replace the captured inputs, and the outputs get new memory.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "engine/output_metadata_cache.h"
#include "graph/recipe.h"
#include "memory/access_set.h"

namespace hpu_reference::graph {

// The inputs and outputs of one captured graph.
class IoBinding {
 public:
  // `inputs` and `outputs` are captured tensors of the graph. Throws if one of them is not a dense device
  // tensor.
  IoBinding(const Graph& recorded,
            const std::vector<at::Tensor>& inputs,
            const std::vector<at::Tensor>& outputs);

  // Returns the reason why these inputs cannot replace the captured inputs, or an empty string.
  std::string rejection_reason(const std::vector<at::Tensor>& inputs) const;
  // Returns, for each buffer of the graph, true if the buffer belongs to an input.
  std::vector<bool> input_buffers(std::size_t buffers) const;
  // Returns, for each buffer of the graph, true if the buffer belongs to an output.
  std::vector<bool> output_buffers(std::size_t buffers) const;

  // Writes the inputs' host addresses into the address list of the buffers.
  void place_inputs(const std::vector<at::Tensor>& inputs, std::vector<void*>& addresses) const;
  // Adds the inputs' memory to the access set, as written if the recipe writes the buffer of the input.
  void add_inputs(const std::vector<at::Tensor>& inputs,
                  const Recipe& recipe,
                  memory::AccessSet& access_set) const;
  // Allocates memory for the outputs that the graph creates and writes its addresses into the address list of
  // the buffers. Returns the storages by buffer.
  std::vector<c10::Storage> place_outputs(std::vector<void*>& addresses) const;
  // Returns the outputs of a call with these inputs and output storages.
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs,
                                  const std::vector<c10::Storage>& new_storages) const;

 private:
  struct Slot {
    int buffer = -1;          // -1 if no call uses the memory
    int input = -1;           // outputs: index of the input with the same memory
    engine::Result metadata;  // sizes, strides, offset, dtype, bits
    std::size_t bytes = 0;    // size of the storage
    std::size_t first = 0;    // inputs: index of the first input with the same storage
    bool unique = true;       // inputs: no other input shares the storage
    std::size_t begin = 0;    // inputs: range of storage bytes that calls access
    std::size_t end = 0;
    at::Tensor captured_output;  // outputs that no call creates: the tensor itself
  };

  static bool fits(const Slot& slot, const at::Tensor& tensor);
  static std::vector<bool> buffers_of(const std::vector<Slot>& slots, std::size_t buffers);
  std::int64_t shift(const std::vector<at::Tensor>& inputs, std::size_t input) const;
  bool is_new_output(const Slot& slot) const {
    return slot.input < 0 && !slot.captured_output.defined();
  }

  std::vector<Slot> inputs_;
  std::vector<Slot> outputs_;
  // Storages that the graph uses and that a call does not replace.
  std::unordered_set<const c10::StorageImpl*> unbound_storages_;
};

// Allocates device memory as a storage. `in_order`: as in memory::allocate_device().
c10::Storage allocate_device_storage(std::size_t bytes, bool in_order = true);
// Throws if the tensor is not a dense device tensor. `description` names the tensors in the message, in the
// plural.
void require_dense(const at::Tensor& tensor, const char* description);

}  // namespace hpu_reference::graph
