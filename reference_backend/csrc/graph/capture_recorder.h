// The recorder of an HPU graph between begin() and end(). It runs the calls that it records.
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

// The calls recorded so far in one capture. Several threads may record, because autograd has its own threads.
class CaptureRecording final : public engine::CaptureRecorder {
 public:
  // `dry_run`: finish() restores the contents of memory from before the capture. `this_thread`: as in
  // CaptureScope.
  CaptureRecording(bool dry_run, bool this_thread);

  bool record(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              torch::jit::Stack* stack) override;
  // Records a copy between host and device memory. Each replay reads or writes the host memory again. `copy`
  // performs the copy now.
  void record_host_copy(at::Tensor& self, const at::Tensor& source, const std::function<void()>& copy);

  // Ends the recording and returns its graph. A call that arrives later runs without being recorded.
  Graph finish();
  // Returns true, after finish(), if a storage was resized in a way that a replay cannot repeat.
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
  std::unordered_map<int, std::string> saved_;  // dry run: contents of buffers before their first write
  std::vector<std::pair<c10::Storage, std::string>> saved_host_;  // dry run: contents of host memory
};

// Returns the recording of calls on this thread's current stream, or nullptr.
std::shared_ptr<CaptureRecording> current_capture_recording();

}  // namespace hpu_reference::graph
