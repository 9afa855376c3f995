// An HPU graph: the device work that a program issues between begin() and end(), to be repeated.
//
// A capture runs what it records. The memory that the graph uses is kept: that of tensors which outlive the
// capture as it is, the rest planned into one workspace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/io_binding.h"
#include "graph/aoti_program.h"
#include "graph/recipe.h"
#include "graph/capture_recorder.h"

namespace hpu_reference::graph {

// One captured graph. Several threads may use it.
class Capture {
 public:
  Capture() = default;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Starts the capture, on the current stream. `dry_run`: end() gives memory from before the capture the
  // contents that it had here. `this_thread`: other threads may work on the same stream meanwhile.
  void begin(bool dry_run, bool this_thread = false);
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

  // True between begin() and end().
  bool is_capturing() const;
  // True if what the calling thread issues on its current stream is recorded here.
  bool is_recording_current_stream() const;
  // The graph as it is now, also for a caller without the lock: the recipe's, or a copy of what was recorded.
  std::shared_ptr<const Graph> snapshot() const;
  // Number of calls.
  std::size_t size() const;
  // True if it has a fused program, and the number of its runs.
  bool is_fused() const;
  std::int64_t fused_runs() const;
  // True if a call that the passes have left touches the tensor's memory.
  bool uses(const at::Tensor& tensor) const;
  // Names of the calls' operators, in order.
  std::vector<std::string> operators() const;
  // Bytes of device memory that the graph keeps.
  std::size_t memory_bytes() const;
  // The graph as "text" or "dot".
  std::string dump(const std::string& format) const;
  // Runs the shared object in place of the calls from now on.
  void set_fused(const std::string& path, const std::vector<AotiArgument>& arguments);

 private:
  enum class State { Empty, Capturing, Ready };

  void require_ready(const char* method) const;
  void compile();
  const Graph& graph() const;
  void* address_of(std::size_t buffer) const;
  Launch make_launch() const;
  memory::AccessSet access_set() const;

  // What begin() to compile() have made; reset() replaces it as a whole.
  struct Contents {
    State state = State::Empty;
    c10::StreamId stream = 0;
    std::shared_ptr<CaptureRecording> recording;
    Graph recorded;
    std::shared_ptr<Recipe> recipe;
    std::vector<void*> addresses;
    // Per buffer; empty if the memory comes with each launch. A storage that is resized takes the graph with
    // it.
    std::shared_ptr<const std::vector<c10::Storage>> owners;
    // Host tensors that calls copy from or to, and the bytes that they need.
    std::vector<std::pair<at::Tensor, std::size_t>> host_tensors;
    c10::Storage workspace;
    std::optional<IoBinding> io_binding;  // after set_interface()
  };

  mutable runtime::YieldingMutex<runtime::LockRank::Graph> mutex_;
  Contents contents_;
};

}  // namespace hpu_reference::graph
