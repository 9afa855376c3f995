#include "graph/capture_recorder.h"

#include <cstring>
#include <unordered_set>

#include "engine/call.h"
#include "kernels/host_call.h"
#include "kernels/operator_plan.h"
#include "memory/access_set.h"
#include "runtime/fork.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::graph {

namespace {

using Lock = std::lock_guard<runtime::YieldingMutex<runtime::LockRank::CaptureRecording>>;

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Waits for the stream's work and for work of other streams that uses the memory, since a captured call runs
// at once. Never call it with the recording's lock held.
void finish_earlier_work(const memory::AccessSet& access_set) {
  runtime::flush_recorded();
  const c10::StreamId stream = runtime::current_stream_id();
  if (!runtime::is_queue_idle(stream)) {
    runtime::drain(stream, /*throw_errors=*/false);
  }
  access_set.wait(stream);
}

// Releases memory that was allocated before the capture if the calls refer to this memory but access no byte
// of it, as after a resize_(0).
void release_unused_inputs(const std::vector<engine::Call>& calls, std::vector<Buffer>& buffers) {
  std::unordered_set<const c10::StorageImpl*> used;
  for (const engine::Call& call : calls) {
    for (const Use& use : uses_of(call)) {
      if (use.tensor->has_storage() && use.tensor->numel() > 0) {
        used.insert(storage_of(*use.tensor));
      }
    }
  }
  for (Buffer& buffer : buffers) {
    if (buffer.role == Role::Input && used.count(buffer.host.get()) == 0) {
      buffer.owner = c10::Storage();
    }
  }
}

}  // namespace

CaptureRecording::CaptureRecording(bool dry_run, bool this_thread)
    : engine::CaptureRecorder(this_thread), dry_run_(dry_run), table_(*this) {
}

void CaptureRecording::save(const c10::StorageImpl* device) {
  const int position = table_.position(device);
  if (position >= 0 && table_.buffers()[static_cast<std::size_t>(position)].role == Role::Input) {
    const Buffer& buffer = table_.buffers()[static_cast<std::size_t>(position)];
    saved_.try_emplace(position, static_cast<const char*>(buffer.address), buffer.bytes);
  }
}

void CaptureRecording::save_written(const engine::CallArguments& arguments) {
  for (const auto& argument : arguments.tensors()) {
    if (argument.written && argument.device) {
      save(storage_of(*argument.tensor));
    }
  }
}

bool CaptureRecording::record(const kernels::HostKernel& kernel,
                              const c10::OperatorHandle& op,
                              torch::jit::Stack* stack) {
  // Declared before the lock, so that these references are destroyed after it is released.
  const std::vector<c10::IValue> values(stack->end() - static_cast<std::ptrdiff_t>(kernel.plan().arguments),
                                        stack->end());
  finish_earlier_work(engine::access_set_of(kernel.plan(), values.data()));
  const Lock lock(mutex_);
  if (finished_) {
    return false;
  }
  TORCH_CHECK(
      kernel.is_dense(),
      kernel.plan().name,
      " takes tensors that are not dense, which hpu graph capturing does not support; move the operator "
      "out of the capture");
  table_.record_stream_start(runtime::current_stream_id());
  run(kernel, op, values, stack);
  return true;
}

void CaptureRecording::run(const kernels::HostKernel& kernel,
                           const c10::OperatorHandle& op,
                           const std::vector<c10::IValue>& values,
                           torch::jit::Stack* stack) {
  const kernels::OperatorPlan& plan = kernel.plan();
  const engine::CallArguments arguments(plan, values.data());
  const auto refuse = [&](const char* reason) {
    TORCH_CHECK(false,
                plan.name,
                " cannot be part of an HPU graph: ",
                reason,
                "; move the operator out of the capture");
  };
  if (!arguments.is_deferrable()) {
    refuse(arguments.reason());
  }
  if (plan.resizes_storage) {
    const std::size_t bytes_before = storage_of(values[0].toTensor())->nbytes();
    const runtime::InlineScope scope;
    kernel.run(op, stack);
    if (bytes_before > 0 && storage_of(values[0].toTensor())->nbytes() > bytes_before) {
      refuse("the operator moves a tensor to larger memory");
    }
    return;
  }
  if (plan.name == "aten::_efficientzerotensor") {  // its result has no memory for a replay to write
    const runtime::InlineScope scope;
    kernel.run(op, stack);
    return;
  }
  if (plan.depends_on_data(values.data())) {
    refuse("the size of its result depends on the data");
  }
  if (dry_run_) {
    save_written(arguments);
  }
  std::vector<std::pair<const c10::StorageImpl*, const void*>> memory_before;
  for (const auto& argument : arguments.tensors()) {
    if (argument.written && argument.device) {
      memory_before.emplace_back(argument.storage, argument.storage->data_ptr().get());
    }
  }
  const auto keeps_memory = [&] {
    std::size_t index = 0;
    for (const auto& argument : arguments.tensors()) {
      if (argument.written && argument.device) {
        const auto& [storage, data] = memory_before[index++];
        if (storage_of(*argument.tensor) != storage ||
            (data != nullptr && storage->data_ptr().get() != data)) {
          return false;
        }
      }
    }
    return true;
  };
  const bool is_out = plan.writes_out_only;  // a second run computes the same result
  engine::OutputMetadataPtr output_metadata = engine::find_output_metadata(arguments.key());
  if (output_metadata == nullptr || (is_out && !output_metadata->deferrable)) {
    output_metadata = engine::run_and_cache_metadata(kernel, op, std::string(arguments.key()), stack);
  } else if (output_metadata->deferrable) {
    const runtime::InlineScope scope;
    kernel.run(op, stack);
  }
  if (!keeps_memory()) {
    refuse("the operator moves an out= tensor to other memory, although earlier calls use the old memory");
  }
  if (is_out && !output_metadata->deferrable) {
    // The call has resized its out= tensors. Now that they have the size, the call can be repeated.
    torch::jit::Stack retry_stack(values.begin(), values.end());
    const engine::CallArguments resized(plan, values.data());
    output_metadata = engine::run_and_cache_metadata(kernel, op, std::string(resized.key()), &retry_stack);
  }
  if (!output_metadata->deferrable) {
    refuse(output_metadata->reason);
  }
  const engine::CallArguments call_arguments(plan, values.data());
  const engine::ResolveStorage resolve = [&](c10::StorageImpl* device) { return table_.host(device); };
  engine::Call call =
      engine::make_call(plan, op, kernel.key(), values.data(), call_arguments, output_metadata, resolve);
  std::vector<engine::HostStorage> new_storages(output_metadata->storages.size());
  const std::vector<at::Tensor> results = engine::flattened_results(plan, *stack);
  for (std::size_t i = 0; i < results.size(); i++) {
    if (output_metadata->results[i].kind == engine::Result::Kind::New) {
      new_storages[static_cast<std::size_t>(output_metadata->results[i].source)] =
          table_.host(storage_of(results[i]));
      if (const int position = table_.position(storage_of(results[i])); position >= 0) {
        table_.buffers()[static_cast<std::size_t>(position)].role = Role::Temporary;
      }
    }
  }
  engine::set_new_storages(call, std::move(new_storages));
  calls_.push_back(std::move(call));
}

void CaptureRecording::record_host_copy(at::Tensor& self,
                                        const at::Tensor& source,
                                        const std::function<void()>& copy) {
  static const auto* plan =
      new kernels::OperatorPlan(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  const bool to_device = kernels::is_device_tensor(self);
  memory::AccessSet access_set;
  access_set.add(storage_of(to_device ? self : source), /*written=*/to_device);
  finish_earlier_work(access_set);
  const Lock lock(mutex_);
  if (finished_) {
    copy();
    return;
  }
  if (dry_run_ && to_device) {
    save(storage_of(self));
  } else if (dry_run_) {
    saved_host_.emplace_back(
        self.storage(),
        std::string(static_cast<const char*>(self.storage().data()), self.storage().nbytes()));
  }
  copy();
  calls_.push_back(engine::make_host_copy(
      *plan, self, source, [&](c10::StorageImpl* device) { return table_.host(device); }));
}

Graph CaptureRecording::finish() {
  // Declared before the lock, so that these references are destroyed after it is released.
  std::vector<std::pair<c10::Storage, std::string>> saved_host;
  Graph graph;
  const Lock lock(mutex_);
  finished_ = true;
  const bool forked = runtime::is_forked_child();  // in that case the device memory belongs to the parent
  for (const auto& [position, bytes] : saved_) {
    const auto at = static_cast<std::size_t>(position);
    if (!forked && table_.has_memory(at)) {
      std::memcpy(table_.buffers()[at].address, bytes.data(), bytes.size());
    }
  }
  for (auto& [storage, bytes] : saved_host_) {
    if (!forked && bytes.size() <= storage.nbytes()) {
      std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
    }
  }
  graph.calls = std::move(calls_);
  if (!forked) {
    release_unused_inputs(graph.calls, table_.buffers());
    has_resized_ = !table_.resolve_resized_buffers();
  }
  saved_.clear();
  saved_host.swap(saved_host_);
  graph.buffers = std::move(table_.buffers());
  graph.index();
  return graph;
}

std::shared_ptr<CaptureRecording> current_capture_recording() {
  return std::static_pointer_cast<CaptureRecording>(engine::current_capture());
}

}  // namespace hpu_reference::graph
