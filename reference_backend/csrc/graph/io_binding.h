// The tensors that a captured graph exchanges at each call: others take the place of the captured inputs, and
// fresh memory that of the outputs.
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
  // Takes captured tensors of the graph, dense ones on the device; throws if one is not.
  IoBinding(const Graph& recorded,
           const std::vector<at::Tensor>& inputs,
           const std::vector<at::Tensor>& outputs);

  // The reason that these inputs cannot replace the captured ones; empty if they can.
  std::string refusal(const std::vector<at::Tensor>& inputs) const;
  // For each buffer of the graph: true if it is an input's, or an output's.
  std::vector<bool> input_buffers(std::size_t buffers) const;
  std::vector<bool> output_buffers(std::size_t buffers) const;

  // Writes the inputs' addresses on the host into those of the buffers.
  void place_inputs(const std::vector<at::Tensor>& inputs, std::vector<void*>& addresses) const;
  // Adds the inputs' memory, as the recipe uses it.
  void add_inputs(const std::vector<at::Tensor>& inputs,
                  const Recipe& recipe,
                  memory::AccessSet& access_set) const;
  // Allocates memory for the outputs that the graph makes, and writes its addresses into those of the
  // buffers. Returns it by buffer.
  std::vector<c10::Storage> place_outputs(std::vector<void*>& addresses) const;
  // The outputs of a call with these inputs and that memory.
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs,
                                  const std::vector<c10::Storage>& new_storages) const;

 private:
  struct Slot {
    int buffer = -1;          // -1: memory that no call touches
    int input = -1;           // outputs: the input whose memory it is
    engine::Result metadata;  // sizes, strides, offset, dtype, bits
    std::size_t bytes = 0;    // of the storage
    std::size_t first = 0;    // inputs: the first one with the same storage
    bool unique = true;       // inputs: no other shares the storage
    std::size_t begin = 0;    // inputs: the bytes of the storage that calls look at
    std::size_t end = 0;
    at::Tensor captured_output;  // outputs that no call makes: the tensor itself
  };

  static bool fits(const Slot& slot, const at::Tensor& tensor);
  static std::vector<bool> buffers_of(const std::vector<Slot>& slots, std::size_t buffers);
  std::int64_t shift(const std::vector<at::Tensor>& inputs, std::size_t input) const;
  bool is_new_output(const Slot& slot) const {
    return slot.input < 0 && !slot.captured_output.defined();
  }

  std::vector<Slot> inputs_;
  std::vector<Slot> outputs_;
  // Memory that the graph uses and a call does not exchange.
  std::unordered_set<const c10::StorageImpl*> unbound_storages_;
};

// Allocates device memory as a storage; `in_order` as in memory::allocate_device().
c10::Storage device_storage(std::size_t bytes, bool in_order = true);
// Throws if the tensor is not a dense one of the device; `what` names it, in the plural.
void require_dense(const at::Tensor& tensor, const char* description);

}  // namespace hpu_reference::graph
