#include "engine/engine.h"

#include <ATen/ExpandUtils.h>

#include <mutex>

#include "engine/output_metadata_cache.h"
#include "kernels/host_call.h"
#include "kernels/operator_plan.h"
#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "memory/race_check.h"
#include "runtime/generator.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::engine {

namespace {

std::atomic<Recorder*> g_lazy{nullptr};

std::mutex g_plans_mutex;
std::vector<const kernels::OperatorPlan*>& plans() {
  static auto* value = new std::vector<const kernels::OperatorPlan*>();
  return *value;
}

// A queued operator call.
class CallWork final : public runtime::Work {
 public:
  explicit CallWork(Call&& call) : call_(std::move(call)) {
  }
  void run() override {
    call_.run();
  }
  std::string name() const override {
    return call_.name();
  }

 private:
  Call call_;
};

// Maps the device storages of one call to host storages.
class Resolver {
 public:
  HostStorage operator()(c10::StorageImpl* device) {
    for (const auto& [resolved_device, host] : resolved_) {
      if (resolved_device == device) {
        return host;
      }
    }
    void* data = device->data_ptr().get();
    HostStorage host = make_host_storage(
        data == nullptr ? nullptr : memory::arena().to_host(data), device->nbytes(), device->resizable());
    resolved_.emplace_back(device, host);
    memory::mark_used_later(device);
    return host;
  }

 private:
  c10::SmallVector<std::pair<c10::StorageImpl*, HostStorage>, 6> resolved_;
};

// Counts the warnings of an operator and forwards them to the original handler.
class WarningCounter final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    count += memory::is_reporting_race() ? 0 : 1;
    next_->process(warning);
  }

  int count = 0;

 private:
  c10::WarningHandler* const next_ = c10::WarningUtils::get_warning_handler();
};

template <class Visitor>
void visit_device_storages(const kernels::OperatorPlan& plan,
                           const c10::IValue* arguments,
                           const Visitor& visit) {
  for (std::size_t i = 0; i < plan.arguments; i++) {
    const auto add_value = [&](const c10::IValue& value) {
      if (value.isTensor() && value.toTensor().defined() && kernels::is_device_tensor(value.toTensor()) &&
          value.toTensor().has_storage()) {
        visit(value.toTensor().unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
              static_cast<bool>(plan.written[i]));
      }
    };
    if (arguments[i].isList()) {
      for (const c10::IValue& item : arguments[i].toListRef()) {
        add_value(item);
      }
    } else {
      add_value(arguments[i]);
    }
  }
}

// Returns true if the call must wait for work of another stream that uses its memory.
bool waits_for_memory(const kernels::OperatorPlan& plan, const c10::IValue* arguments) {
  bool used = false;
  visit_device_storages(plan, arguments, [&](const c10::StorageImpl* storage, bool) {
    used |= memory::may_have_users(storage);
  });
  return used && access_set_of(plan, arguments).has_conflicts(runtime::current_stream_id());
}

// Returns the output metadata of a copy_() call without running the call. The output is the first argument.
// Returns null if the call would throw.
OutputMetadataPtr output_metadata_of_copy(const CallArguments& arguments) {
  const at::Tensor& self = *arguments.tensors()[0].tensor;
  if (arguments.tensors().size() != 2 ||
      !at::is_expandable_to(arguments.tensors()[1].tensor->sizes(), self.sizes())) {
    return nullptr;
  }
  OutputMetadata output_metadata;
  Result result;
  result.kind = Result::Kind::Argument;
  result.source = 0;
  result.dtype = self.scalar_type();
  result.sizes = self.sizes();
  result.strides = self.strides();
  result.offset = self.storage_offset();
  result.conj = self.is_conj();
  result.neg = self.is_neg();
  output_metadata.results.push_back(std::move(result));
  output_metadata.lengths.push_back(-1);
  return add_output_metadata(arguments.key(), std::move(output_metadata));
}

void defer(const kernels::HostKernel& kernel,
           const c10::OperatorHandle& op,
           const CallArguments& arguments,
           const OutputMetadataPtr& output_metadata,
           torch::jit::Stack* stack) {
  const std::size_t count = kernel.plan().arguments;
  // Keep the arguments until the work is queued: the pool would treat memory that is freed earlier as idle.
  const c10::SmallVector<c10::IValue, 8> argument_values(stack->end() - static_cast<std::ptrdiff_t>(count),
                                                         stack->end());
  const c10::IValue* values = argument_values.data();
  Resolver resolver;
  const ResolveStorage resolve = [&](c10::StorageImpl* device) { return resolver(device); };
  Call call = make_call(kernel.plan(), op, kernel.key(), values, arguments, output_metadata, resolve);
  if (call.is_random()) {
    call.seed =
        runtime::draw_seed(call.generator.defined() ? std::make_optional(call.generator) : std::nullopt);
  }
  const std::vector<c10::Storage> storages = allocate_results(*output_metadata);
  push_results(*output_metadata, arguments, count, storages, stack);
  std::vector<HostStorage> new_storages;
  for (const c10::Storage& storage : storages) {
    new_storages.push_back(resolver(storage.unsafeGetStorageImpl()));
  }
  set_new_storages(call, std::move(new_storages));
  memory::AccessSet access_set = access_set_of(kernel.plan(), values);
  for (const c10::Storage& storage : storages) {
    access_set.add(storage.unsafeGetStorageImpl(), /*written=*/true);
  }
  counters().deferred.fetch_add(1, std::memory_order_relaxed);
  access_set.enqueue(runtime::current_stream_id(), std::make_unique<CallWork>(std::move(call)));
}

}  // namespace

std::shared_ptr<CaptureRecorder> current_capture() {
  return std::static_pointer_cast<CaptureRecorder>(runtime::current_capture());
}

void set_lazy_recorder(Recorder* recorder) {
  Recorder* before = g_lazy.exchange(recorder);
  runtime::g_pending_work.fetch_add((recorder != nullptr ? 1 : 0) - (before != nullptr ? 1 : 0));
}

bool try_defer(const kernels::HostKernel& kernel,
               const c10::OperatorHandle& op,
               torch::jit::Stack* stack,
               bool large) {
  if (runtime::must_run_inline()) {
    return false;
  }
  if (const std::shared_ptr<CaptureRecorder> capture = current_capture()) {
    record_python_line();
    return capture->record(kernel, op, stack);
  }
  if (Recorder* lazy = g_lazy.load(std::memory_order_acquire)) {
    record_python_line();
    return lazy->record(kernel, op, stack);
  }
  if (!runtime::is_pipeline_enabled() || runtime::is_sync_debug_mode() || !kernel.is_dense()) {
    return false;
  }
  const c10::IValue* values = stack->data() + (stack->size() - kernel.plan().arguments);
  if (!large && !runtime::is_queue_all() && runtime::is_queue_idle(runtime::current_stream_id()) &&
      !waits_for_memory(kernel.plan(), values)) {
    return false;  // run the call now: only streams on which it does not depend have work
  }
  record_python_line();
  const CallArguments arguments(kernel.plan(), values);
  if (!arguments.is_deferrable()) {
    return false;
  }
  OutputMetadataPtr output_metadata = find_output_metadata(arguments.key());
  if (output_metadata == nullptr && kernel.plan().name == "aten::copy_") {
    output_metadata = output_metadata_of_copy(arguments);
  }
  if (output_metadata == nullptr) {
    const std::string key = arguments.key();  // the wait may overwrite the thread's key buffer
    runtime::wait_for_earlier_work(/*throw_errors=*/arguments.depends_on_data());
    access_set_of(kernel.plan(), values)
        .wait(runtime::current_stream_id(), /*throw_errors=*/arguments.depends_on_data());
    run_and_cache_metadata(kernel, op, key, stack);
    return true;
  }
  if (!output_metadata->deferrable) {
    if (output_metadata->resized_arguments.empty()) {
      return false;
    }
    resize_out_arguments(*output_metadata, arguments);
    return try_defer(kernel, op, stack, large);
  }
  defer(kernel, op, arguments, output_metadata, stack);
  return true;
}

memory::AccessSet access_set_of(const kernels::OperatorPlan& plan, const c10::IValue* arguments) {
  memory::AccessSet access_set;
  visit_device_storages(plan, arguments, [&](const c10::StorageImpl* storage, bool written) {
    access_set.add(storage, written);
  });
  return access_set;
}

OutputMetadataPtr run_and_cache_metadata(const kernels::HostKernel& kernel,
                                         const c10::OperatorHandle& op,
                                         const std::string& key,
                                         torch::jit::Stack* stack) {
  const std::size_t count = kernel.plan().arguments;
  const std::vector<c10::IValue> argument_values(stack->end() - static_cast<std::ptrdiff_t>(count),
                                                 stack->end());
  const CallArguments call_arguments(kernel.plan(), argument_values.data());
  const std::vector<std::string> metadata = written_metadata(call_arguments);
  const memory::AllocationLog log;
  WarningCounter warnings;
  {
    const runtime::InlineScope scope;
    const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    kernel.run(op, stack);
  }
  counters().metadata_runs.fetch_add(1, std::memory_order_relaxed);
  OutputMetadata output_metadata = output_metadata_of(kernel.plan(), call_arguments, metadata, *stack, log);
  output_metadata.warns = warnings.count != 0;
  return add_output_metadata(key, std::move(output_metadata));
}

EngineCounters& counters() {
  static auto* value = new EngineCounters();
  return *value;
}

std::vector<std::pair<std::string, std::int64_t>> executed_operators() {
  const std::lock_guard<std::mutex> lock(g_plans_mutex);
  std::vector<std::pair<std::string, std::int64_t>> result;
  for (const auto* plan : plans()) {
    if (const std::int64_t count = plan->executed.load()) {
      result.emplace_back(plan->name, count);
    }
  }
  return result;
}

void reset_executed_operators() {
  const std::lock_guard<std::mutex> lock(g_plans_mutex);
  for (const auto* plan : plans()) {
    plan->executed = 0;
  }
}

void register_plan(const kernels::OperatorPlan* plan) {
  const std::lock_guard<std::mutex> lock(g_plans_mutex);
  plans().push_back(plan);
}

}  // namespace hpu_reference::engine
