// The part of an HPU graph between its begin() and end(): runs the calls that it records.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/output_metadata_cache.h"
#include "graph/graph.h"
#include "kernels/host_kernel.h"
#include "runtime/gil.h"

namespace hpu_reference::graph {

// The calls of one capture so far. Several threads may record: autograd has its own.
class CaptureRecording final : public engine::CaptureRecorder {
 public:
  // `dry_run`: memory from before the capture gets its contents back at the end. `this_thread`: as in
  // CaptureScope.
  CaptureRecording(bool dry_run, bool this_thread);

  // As engine::Recorder.
  bool record(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              torch::jit::Stack* stack) override;
  // Records a copy between host and device memory: each replay reads or writes the host's side again. `copy`
  // does it now.
  void record_host_copy(at::Tensor& self, const at::Tensor& source, const std::function<void()>& copy);

  // Ends the recording and returns its calls; a call that comes too late simply runs.
  Graph finish();
  // After finish(): true if a storage was resized meanwhile in a way that a replay cannot repeat.
  bool has_resized() const {
    return has_resized_;
  }

 private:
  void save(const c10::StorageImpl* device);
  void save_written(const engine::CallArguments& arguments);
  void run(const kernels::HostKernel& kernel,
           const c10::OperatorHandle& op,
           const std::vector<c10::IValue>& values,
           torch::jit::Stack* stack);

  runtime::YieldingMutex<runtime::LockRank::CaptureRecording> mutex_;
  bool finished_ = false;
  bool has_resized_ = false;
  const bool dry_run_;
  BufferTable table_;
  std::vector<engine::Call> calls_;
  std::unordered_map<int, std::string> saved_;  // of a dry run: contents of buffers before the first write
  std::vector<std::pair<c10::Storage, std::string>> saved_host_;  // the same for host memory
};

// The recording that calls on this thread's current stream belong to, or nullptr.
std::shared_ptr<CaptureRecording> current_capture_recording();

}  // namespace hpu_reference::graph
