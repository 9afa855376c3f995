#include "engine/engine.h"

#include <ATen/ExpandUtils.h>

#include <mutex>

#include "engine/output_metadata_cache.h"
#include "kernels/host_call.h"
#include "kernels/operator_plan.h"
#include "memory/allocator.h"
#include "memory/allocation_redirect.h"
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

// One operator on a queue.
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

// Host storages for the storages of one call.
class Resolver {
 public:
  HostStorage operator()(c10::StorageImpl* device) {
    for (const auto& [known, host] : known_) {
      if (known == device) {
        return host;
      }
    }
    void* data = device->data_ptr().get();
    HostStorage host = make_host_storage(
        data == nullptr ? nullptr : memory::arena().to_host(data), device->nbytes(), device->resizable());
    known_.emplace_back(device, host);
    memory::touch(device);
    return host;
  }

 private:
  c10::SmallVector<std::pair<c10::StorageImpl*, HostStorage>, 6> known_;
};

// Counts an operator's warnings on their way to their handler.
class WarningCounter final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    count += memory::is_reporting_order() ? 0 : 1;
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
    const auto look = [&](const c10::IValue& value) {
      if (value.isTensor() && value.toTensor().defined() && kernels::is_device_tensor(value.toTensor()) &&
          value.toTensor().has_storage()) {
        visit(value.toTensor().unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
              static_cast<bool>(plan.written[i]));
      }
    };
    if (arguments[i].isList()) {
      for (const c10::IValue& item : arguments[i].toListRef()) {
        look(item);
      }
    } else {
      look(arguments[i]);
    }
  }
}

// True if the call has to wait for work of another stream, which uses its memory.
bool waits_for_memory(const kernels::OperatorPlan& plan, const c10::IValue* arguments) {
  bool used = false;
  visit_device_storages(plan, arguments, [&](const c10::StorageImpl* storage, bool) {
    used |= memory::may_have_users(storage);
  });
  return used && footprint_of(plan, arguments).has_conflicts(runtime::current_stream_id());
}

// What a copy returns is known without running it: its first argument. Null for one that throws.
LearnedPtr learn_copy(const CallArguments& arguments) {
  const at::Tensor& self = *arguments.tensors()[0].tensor;
  if (arguments.tensors().size() != 2 ||
      !at::is_expandable_to(arguments.tensors()[1].tensor->sizes(), self.sizes())) {
    return nullptr;
  }
  Learned learned;
  Result result;
  result.kind = Result::Kind::Argument;
  result.source = 0;
  result.dtype = self.scalar_type();
  result.sizes = self.sizes();
  result.strides = self.strides();
  result.offset = self.storage_offset();
  result.conj = self.is_conj();
  result.neg = self.is_neg();
  learned.results.push_back(std::move(result));
  learned.lengths.push_back(-1);
  return add_learned(arguments.key(), std::move(learned));
}

void defer(const kernels::HostKernel& kernel,
           const c10::OperatorHandle& op,
           const CallArguments& arguments,
           const LearnedPtr& learned,
           torch::jit::Stack* stack) {
  const std::size_t count = kernel.plan().arguments;
  // Keeps the arguments until the work is queued: memory that is freed before would count as idle.
  const c10::SmallVector<c10::IValue, 8> kept(stack->end() - static_cast<std::ptrdiff_t>(count),
                                              stack->end());
  const c10::IValue* values = kept.data();
  Resolver resolver;
  const ResolveStorage resolve = [&](c10::StorageImpl* device) { return resolver(device); };
  Call call = make_call(kernel.plan(), op, kernel.key(), values, arguments, learned, resolve);
  if (call.random()) {
    call.seed =
        runtime::draw_seed(call.generator.defined() ? std::make_optional(call.generator) : std::nullopt);
  }
  const std::vector<c10::Storage> storages = allocate_results(*learned);
  push_results(*learned, arguments, count, storages, stack);
  std::vector<HostStorage> fresh;
  for (const c10::Storage& storage : storages) {
    fresh.push_back(resolver(storage.unsafeGetStorageImpl()));
  }
  set_fresh(call, std::move(fresh));
  memory::Footprint footprint = footprint_of(kernel.plan(), values);
  for (const c10::Storage& storage : storages) {
    footprint.add(storage.unsafeGetStorageImpl(), /*written=*/true);
  }
  counters().deferred.fetch_add(1, std::memory_order_relaxed);
  footprint.enqueue(runtime::current_stream_id(), std::make_unique<CallWork>(std::move(call)));
}

}  // namespace

std::shared_ptr<CaptureRecorder> capture_here() {
  return std::static_pointer_cast<CaptureRecorder>(runtime::capture_here());
}

void set_lazy(Recorder* recorder) {
  Recorder* before = g_lazy.exchange(recorder);
  runtime::g_attention.fetch_add((recorder != nullptr ? 1 : 0) - (before != nullptr ? 1 : 0));
}

bool hold_back(const kernels::HostKernel& kernel,
               const c10::OperatorHandle& op,
               torch::jit::Stack* stack,
               bool large) {
  if (runtime::runs_inline()) {
    return false;
  }
  if (const std::shared_ptr<CaptureRecorder> capture = capture_here()) {
    note_line();
    return capture->record(kernel, op, stack);
  }
  if (Recorder* lazy = g_lazy.load(std::memory_order_acquire)) {
    note_line();
    return lazy->record(kernel, op, stack);
  }
  if (!runtime::is_pipeline_enabled() || runtime::is_sync_debug_mode() || !kernel.is_dense()) {
    return false;
  }
  const c10::IValue* values = stack->data() + (stack->size() - kernel.plan().arguments);
  if (!large && !runtime::is_queue_all() && runtime::is_queue_idle(runtime::current_stream_id()) &&
      !waits_for_memory(kernel.plan(), values)) {
    return false;  // only other streams have work
  }
  note_line();
  const CallArguments arguments(kernel.plan(), values);
  if (!arguments.deferrable()) {
    return false;
  }
  LearnedPtr learned = find_learned(arguments.key());
  if (learned == nullptr && kernel.plan().name == "aten::copy_") {
    learned = learn_copy(arguments);
  }
  if (learned == nullptr) {
    const std::string key = arguments.key();  // waiting may use the thread's
    runtime::wait_for_earlier_work(/*surface=*/arguments.depends_on_data());
    footprint_of(kernel.plan(), values)
        .wait(runtime::current_stream_id(), /*surface=*/arguments.depends_on_data());
    run_and_learn(kernel, op, key, stack);
    return true;
  }
  if (!learned->deferrable) {
    if (learned->grown.empty()) {
      return false;
    }
    grow(*learned, arguments);
    return hold_back(kernel, op, stack, large);
  }
  defer(kernel, op, arguments, learned, stack);
  return true;
}

memory::Footprint footprint_of(const kernels::OperatorPlan& plan, const c10::IValue* arguments) {
  memory::Footprint footprint;
  visit_device_storages(plan, arguments, [&](const c10::StorageImpl* storage, bool written) {
    footprint.add(storage, written);
  });
  return footprint;
}

LearnedPtr run_and_learn(const kernels::HostKernel& kernel,
                         const c10::OperatorHandle& op,
                         const std::string& key,
                         torch::jit::Stack* stack) {
  const std::size_t count = kernel.plan().arguments;
  const std::vector<c10::IValue> kept(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const CallArguments looked_at(kernel.plan(), kept.data());
  const std::vector<std::string> metadata = written_metadata(looked_at);
  const memory::AllocationLog log;
  WarningCounter warnings;
  {
    const runtime::InlineScope scope;
    const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    kernel.run(op, stack);
  }
  counters().learned.fetch_add(1, std::memory_order_relaxed);
  Learned learned = learn_results(kernel.plan(), looked_at, metadata, *stack, log);
  learned.warns = warnings.count != 0;
  return add_learned(key, std::move(learned));
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
