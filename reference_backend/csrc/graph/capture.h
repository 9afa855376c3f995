// An HPU graph: the device work that a program issues between begin() and end(), to be repeated.
//
// A capture runs what it records. The memory that the graph uses is kept: that of tensors which outlive the
// capture as it is, the rest planned into one workspace.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_set>

#include "engine/engine.h"
#include "engine/learned.h"
#include "graph/fused_program.h"
#include "graph/recipe.h"
#include "kernels/host_kernel.h"

namespace hpu_reference::graph {

// One captured graph.
class Capture final : public engine::Recorder {
 public:
  ~Capture() override;

  // Starts the capture. `dry_run`: end() gives memory from before the capture the contents that it had here.
  void begin(bool dry_run);
  // Ends the capture.
  void end();
  // Ends a capture that cannot be finished, and forgets everything.
  void reset();
  // Runs the graph again, with new values of the random operators. `asynchronous`: behind the host in any
  // case.
  void replay(bool asynchronous);

  // Runs the passes now instead of at the first replay.
  void prepare();

  // Names the captured tensors that call() exchanges: it takes others for the inputs and fresh memory for the
  // outputs. Memory that the graph has made and that neither names is the graph's own from now on.
  void set_interface(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);
  // True if call() takes tensors like these: sizes, strides, dtypes, and which share memory.
  bool accepts(const std::vector<at::Tensor>& inputs) const;
  // Runs the graph on these inputs and returns its outputs.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs, bool asynchronous);

  // As engine::Recorder.
  bool record(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              torch::jit::Stack* stack) override;
  // Records a copy between host and device memory: each replay reads or writes the host's side again. `copy`
  // does it now.
  void record_host_copy(at::Tensor& self, const at::Tensor& source, const std::function<void()>& copy);

  // True between begin() and end().
  bool is_capturing() const {
    return state_ == State::Capturing;
  }
  // The compiled graph; nullptr before the first replay or prepare().
  const Recipe* recipe() const {
    return recipe_.get();
  }
  // True if a call that the passes have left touches the tensor's memory.
  bool uses(const at::Tensor& tensor) const;
  // Names of the calls' operators, in order.
  std::vector<std::string> operators() const;
  // Bytes of device memory that the graph keeps.
  std::size_t memory_bytes() const;
  // The graph as "text" or "dot".
  std::string dump(const std::string& format) const;
  // Runs the shared object in place of the calls from now on.
  void set_fused(const std::string& path, const std::vector<FusedArgument>& arguments);
  // The recipe's graph, or the recorded one before the passes.
  const Graph& graph() const;

 private:
  enum class State { Empty, Capturing, Ready };

  void require_ready(const char* what) const;
  void compile();
  void launch(Launch&& launch, bool asynchronous);
  void save(const c10::StorageImpl* device);
  void save_written(const engine::CallArguments& arguments);
  void finish_earlier_work();
  void restore();
  void run_recorded(const kernels::HostKernel& kernel,
                    const c10::OperatorHandle& op,
                    torch::jit::Stack* stack);

  struct Slot {               // one tensor of the interface
    int buffer = -1;          // -1: memory that no call touches
    int input = -1;           // outputs: the input whose memory it is
    engine::Result metadata;  // sizes, strides, offset, dtype, bits
    std::size_t bytes = 0;    // of the storage
    std::size_t first = 0;    // inputs: the first one with the same storage
    bool unique = true;       // inputs: no other shares the storage
    std::size_t begin = 0;    // inputs: the bytes of the storage that calls look at
    std::size_t end = 0;
    at::Tensor kept;  // outputs that no call makes: the tensor itself
  };

  static bool fits(const Slot& slot, const at::Tensor& tensor);
  std::string refusal(const std::vector<at::Tensor>& inputs) const;
  at::Tensor output_tensor(const Slot& slot,
                           const std::vector<at::Tensor>& inputs,
                           const std::vector<c10::Storage>& fresh) const;

  State state_ = State::Empty;
  c10::StreamId stream_ = 0;
  std::recursive_mutex mutex_;  // several threads may record: autograd has its own
  std::optional<BufferTable> table_;
  Graph recorded_;
  bool dry_run_ = false;
  std::vector<std::pair<c10::Storage, std::string>> saved_host_;  // the same for host memory
  std::unordered_set<const c10::StorageImpl*>
      static_;                                  // memory that the graph uses and call() does not exchange
  std::unordered_map<int, std::string> saved_;  // of a dry run: contents of buffers before the first write
  std::shared_ptr<Recipe> recipe_;
  std::vector<void*> addresses_;
  std::shared_ptr<std::vector<c10::Storage>>
      owners_;  // per buffer; empty if the memory comes with each launch
  c10::Storage workspace_;
  bool has_interface_ = false;
  std::vector<Slot> inputs_;
  std::vector<Slot> outputs_;
};

// The capture in progress, or nullptr.
Capture* current_capture();

}  // namespace hpu_reference::graph
