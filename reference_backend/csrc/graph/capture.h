// An HPU graph: the device work that a program issues between begin() and end(), for replay.
//
// A capture also runs the work that it records. The graph retains the memory of this work. Tensors that
// outlive the capture keep their memory; all other buffers are planned into one workspace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/aoti_program.h"
#include "graph/capture_recorder.h"
#include "graph/io_binding.h"
#include "graph/recipe.h"

namespace hpu_reference::graph {

// A captured graph. Several threads may use it.
class Capture {
 public:
  Capture() = default;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Starts the capture on the current stream. `dry_run`: end() restores the contents of memory from before
  // the capture. `this_thread`: other threads may work on the same stream without being captured.
  void begin(bool dry_run, bool this_thread = false);
  // Ends the capture.
  void end();
  // Discards the graph. Ends the capture if it is still in progress.
  void reset();
  // Runs the graph again, with new random numbers. `asynchronous`: always queue the launch.
  void replay(bool asynchronous);

  // Runs the passes now instead of at the first replay.
  void prepare();

  // Declares the captured input and output tensors that call() replaces: call() takes other tensors as inputs
  // and allocates new memory for the outputs. From now on, all other memory that the graph allocated belongs
  // to the graph alone.
  void set_io_binding(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);
  // Returns true if call() accepts these tensors: sizes, strides, dtypes and memory sharing match the
  // captured inputs.
  bool accepts(const std::vector<at::Tensor>& inputs) const;
  // Runs the graph on these inputs and returns its outputs.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs, bool asynchronous);

  bool is_capturing() const;
  // Returns true if this capture records the work that the calling thread issues on its current stream.
  bool is_recording_current_stream() const;
  // Returns the present graph: the recipe's graph, or a copy of the recorded graph. The result may be used
  // without the lock.
  std::shared_ptr<const Graph> snapshot() const;
  std::size_t size() const;
  // Returns true if a fused program is set.
  bool is_fused() const;
  // Returns the number of runs of the fused program.
  std::int64_t fused_runs() const;
  // Returns true if a call that remains after the passes accesses the tensor's memory.
  bool accesses(const at::Tensor& tensor) const;
  // Returns the names of the calls' operators, in order.
  std::vector<std::string> operators() const;
  // Returns the bytes of device memory that the graph retains.
  std::size_t memory_bytes() const;
  // Returns the graph in the format "text" or "dot".
  std::string dump(const std::string& format) const;
  // Runs the shared object instead of the calls from now on.
  void set_fused(const std::string& path, const std::vector<AotiArgument>& arguments);

 private:
  enum class State { Empty, Capturing, Ready };

  void require_ready(const char* method) const;
  void compile();
  const Graph& graph() const;
  void* address_of(std::size_t buffer) const;
  Launch make_launch() const;
  memory::AccessSet access_set() const;

  // The state of the graph from begin() on. reset() replaces the whole state.
  struct Contents {
    State state = State::Empty;
    c10::StreamId stream = 0;
    std::shared_ptr<CaptureRecording> recording;
    Graph recorded;
    std::shared_ptr<Recipe> recipe;
    std::vector<void*> addresses;
    // The storages that own the buffers' memory, one per buffer. A storage is empty if each launch provides
    // the memory. If a storage is resized, the graph uses the new memory of the storage.
    std::shared_ptr<const std::vector<c10::Storage>> owners;
    // Host tensors that calls copy from or to, and the bytes that the copies need.
    std::vector<std::pair<at::Tensor, std::size_t>> host_tensors;
    c10::Storage workspace;
    std::optional<IoBinding> io_binding;  // set by set_io_binding()
  };

  mutable runtime::YieldingMutex<runtime::LockRank::Graph> mutex_;
  Contents contents_;
};

}  // namespace hpu_reference::graph
