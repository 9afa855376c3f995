#include "graph/lazy_recorder.h"

#include <utility>

#include "engine/engine.h"
#include "graph/cache.h"
#include "kernels/operator_plan.h"
#include "memory/access_set.h"
#include "memory/allocator.h"
#include "runtime/generator.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::graph {

namespace {

template <class T>
void put(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

}  // namespace

void LazyRecorder::begin() {
  if (table_.has_value() && recorded() == 0) {
    table_.reset();  // a call that threw has left this table; later allocations do not belong to it
    key_.clear();
  }
  if (!table_.has_value()) {
    table_.emplace();
    removals_ = engine::output_metadata_removals();
    followed_ =
        FollowedGraph{engine::is_recording_python_lines() ? nullptr : launcher_.predictor.next(), 0, {}, {}};
    runtime::g_recorded_on = runtime::current_stream_id();
    memory::pool().set_recording(table_->epoch(), runtime::queue_of(runtime::g_recorded_on));
  } else if (runtime::g_recorded_on != runtime::current_stream_id()) {
    flush(/*wait=*/false);
    begin();
  }
}

// Appends a call to the graph's key: all properties of the call that determine the graph's computation,
// except lifted values. The id of the output metadata represents all properties that are part of the call's
// key, so only the buffers of the tensors are appended besides this id.
void LazyRecorder::append_to_key(const engine::OutputMetadata& output_metadata,
                                 const engine::CallArguments& arguments,
                                 const std::vector<c10::Storage>& new_storages) {
  put(key_, output_metadata.id);
  for (const auto& argument : arguments.tensors()) {
    const int position = argument.device ? table_->position(storage_of(*argument.tensor)) : -2;
    if (argument.written && position >= 0) {
      table_->mark_written(position);
    }
    put(key_, position);
  }
  for (const c10::Storage& storage : new_storages) {
    const int position = table_->position(storage.unsafeGetStorageImpl());
    if (position >= 0) {
      table_->mark_written(position);
      // The buffer is a temporary even if its allocation has made the recorder start a new graph.
      table_->buffers()[static_cast<std::size_t>(position)].role = Role::Temporary;
    }
    put(key_, position);
  }
}

// Returns true if the call is the next call of the followed graph, or the first call of another predicted
// graph, which is then followed. The call's key starts at `start`. Stores the call's seed and lifted values.
bool LazyRecorder::follows(const engine::CallArguments& arguments,
                           const engine::OutputMetadata& output_metadata,
                           const c10::IValue* values,
                           std::size_t start,
                           std::uint64_t seed) {
  if (followed_.active() && !followed_.graph().continues(key_, start, followed_.calls)) {
    stop_following();
  }
  if (!followed_.active()) {
    if (!calls_.empty() || engine::is_recording_python_lines()) {
      return false;
    }
    followed_.entry = launcher_.predictor.starting_with(output_metadata.id);
    if (!followed_.active() || !followed_.graph().continues(key_, start, 0)) {
      followed_ = {};
      return false;
    }
  }
  c10::SmallVector<c10::IValue, 2> lifted;
  for (const int position : arguments.lifted()) {
    lifted.push_back(engine::stored_value(values[position]));
  }
  followed_.seeds.reserve(followed_.calls + 1);  // push_back() then cannot fail after insert() has succeeded
  followed_.lifted.insert(followed_.lifted.end(), lifted.begin(), lifted.end());
  followed_.seeds.push_back(seed);
  followed_.calls++;
  statistics_.followed++;
  return true;
}

// Stops following a graph, because the recording differs from it. Creates the calls that the recording has
// followed so far.
void LazyRecorder::stop_following() {
  if (followed_.active()) {
    const std::size_t count = followed_.calls;
    std::vector<bool> has_run(count, false);
    calls_ = followed_.graph().make_calls(count, *table_, followed_.seeds, followed_.lifted);
    has_run_ = std::move(has_run);
    not_run_ = count;
    followed_ = {};
  }
}

// Discards the recorded calls.
void LazyRecorder::drop_recorded() {
  table_.reset();
  calls_.clear();
  has_run_.clear();
  not_run_ = 0;
  followed_ = {};
  key_.clear();
  memory::pool().set_recording(0, 0);
  runtime::g_recorded.store(0, std::memory_order_release);
}

void LazyRecorder::append(const kernels::HostKernel& kernel,
                          const c10::OperatorHandle& op,
                          const engine::CallArguments& arguments,
                          const engine::OutputMetadataPtr& output_metadata,
                          const c10::IValue* values,
                          const std::vector<c10::Storage>& new_storages,
                          bool has_run,
                          std::uint64_t seed) {
  const std::size_t start = key_.size();
  try {
    append_call(kernel, op, arguments, output_metadata, values, new_storages, has_run, seed);
  } catch (...) {
    key_.resize(start);
    throw;
  }
  statistics_.recorded++;
  runtime::g_recorded.store(static_cast<std::int64_t>(recorded()), std::memory_order_release);
}

void LazyRecorder::append_call(const kernels::HostKernel& kernel,
                               const c10::OperatorHandle& op,
                               const engine::CallArguments& arguments,
                               const engine::OutputMetadataPtr& output_metadata,
                               const c10::IValue* values,
                               const std::vector<c10::Storage>& new_storages,
                               bool has_run,
                               std::uint64_t seed) {
  const std::size_t start = key_.size();
  append_to_key(*output_metadata, arguments, new_storages);
  if (has_run) {
    stop_following();
  }
  if (has_run || !follows(arguments, *output_metadata, values, start, seed)) {
    const engine::ResolveStorage resolve = [&](c10::StorageImpl* device) { return table_->host(device); };
    engine::Call call =
        engine::make_call(kernel.plan(), op, kernel.key(), values, arguments, output_metadata, resolve);
    std::vector<engine::HostStorage> storages;
    storages.reserve(new_storages.size());
    for (const c10::Storage& storage : new_storages) {
      storages.push_back(table_->host(storage.unsafeGetStorageImpl()));
    }
    engine::set_new_storages(call, std::move(storages));
    call.seed = seed;
    calls_.push_back(std::move(call));
    has_run_.push_back(has_run);
    not_run_ += has_run ? 0 : 1;
  }
}

// Locks the recorder when the recorded calls, and a call with these arguments, may run at once: no launched
// work on the recorder's stream and no conflicting work on other streams is pending.
LazyRecorder::Lock LazyRecorder::lock_when_ready(const memory::AccessSet& arguments) {
  memory::AccessSet recorded;
  for (;;) {
    const c10::StreamId stream = runtime::current_stream_id();
    runtime::drain(stream, /*throw_errors=*/false);
    recorded.wait(stream);
    arguments.wait(stream);
    Lock lock(mutex_);
    begin();  // may launch a graph of another stream, for which the arguments must then wait
    recorded = table_->access_set();
    if (runtime::is_queue_idle(stream) && !recorded.has_conflicts(stream) &&
        !arguments.has_conflicts(stream)) {
      return lock;
    }
  }
}

// Runs the recorded calls that have not run, without ending the graph. The stream must be idle.
void LazyRecorder::catch_up() {
  stop_following();
  for (std::size_t i = 0; i < calls_.size() && not_run_ > 0; i++) {
    if (!has_run_[i]) {
      has_run_[i] = true;
      not_run_--;
      const runtime::InlineScope scope;
      try {
        calls_[i].run();
      } catch (...) {  // the error does not belong to the operator that requested the catch-up
        runtime::store_error(
            runtime::queue_of(runtime::g_recorded_on), std::current_exception(), calls_[i].name());
      }
    }
  }
}

bool LazyRecorder::record(const kernels::HostKernel& kernel,
                          const c10::OperatorHandle& op,
                          torch::jit::Stack* stack) {
  const kernels::OperatorPlan& plan = kernel.plan();
  if (!kernel.is_dense()) {
    return false;  // HostCall launches the recorded calls first
  }
  const engine::CallArguments arguments(plan, stack->data() + (stack->size() - plan.arguments));
  if (!arguments.is_deferrable() || plan.depends_on_data(stack->data() + (stack->size() - plan.arguments))) {
    return false;
  }
  std::optional<Lock> lock;
  engine::OutputMetadataPtr output_metadata;
  if (plan.generator < 0) {
    lock.emplace(mutex_);
    output_metadata = expected(arguments.key());
  }
  if (output_metadata == nullptr) {
    lock.reset();
    output_metadata = engine::find_output_metadata(arguments.key());
    if (output_metadata != nullptr && !output_metadata->deferrable) {
      if (output_metadata->resized_arguments.empty()) {
        return false;
      }
      engine::resize_out_arguments(*output_metadata, arguments);
      return record(kernel, op, stack);
    }
    if (output_metadata == nullptr) {
      return record_new(kernel, op, arguments, stack);
    }
  }
  const c10::IValue* values = stack->data() + (stack->size() - plan.arguments);
  std::uint64_t seed = 0;
  if (plan.generator >= 0) {
    const c10::IValue& generator_value = values[plan.generator];
    seed = runtime::draw_seed(
        generator_value.isGenerator() ? std::make_optional(generator_value.toGenerator()) : std::nullopt);
  }
  if (!lock.has_value()) {
    lock.emplace(mutex_);
  }
  begin();
  const std::vector<c10::Storage> new_storages = engine::allocate_results(*output_metadata);
  begin();  // again, because a memory shortage may have launched the graph
  append(kernel, op, arguments, output_metadata, values, new_storages, /*has_run=*/false, seed);
  const FlushRequest next = flush_request();
  lock.reset();
  engine::push_results(*output_metadata, arguments, plan.arguments, new_storages, stack);
  flush_as_requested(next);
  return true;
}

// Returns the output metadata if a call with this key is the next call of the followed graph, otherwise
// nullptr.
engine::OutputMetadataPtr LazyRecorder::expected(const std::string& key) const {
  return followed_.active() && table_.has_value() ? followed_.graph().output_metadata(followed_.calls, key)
                                                  : nullptr;
}

// Records a call whose output metadata is not known yet, by running the call.
bool LazyRecorder::record_new(const kernels::HostKernel& kernel,
                              const c10::OperatorHandle& op,
                              const engine::CallArguments& arguments,
                              torch::jit::Stack* stack) {
  const kernels::OperatorPlan& plan = kernel.plan();
  // Declared before the lock, so that these references are destroyed after it is released.
  const std::vector<c10::IValue> values(stack->end() - static_cast<std::ptrdiff_t>(plan.arguments),
                                        stack->end());
  const std::string key = arguments.key();  // the wait may overwrite the thread's key buffer
  FlushRequest next;
  {
    Lock lock = lock_when_ready(engine::access_set_of(plan, values.data()));
    catch_up();
    statistics_.caught_up++;
    const engine::OutputMetadataPtr output_metadata = engine::run_and_cache_metadata(kernel, op, key, stack);
    if (!output_metadata->deferrable || output_metadata->warns) {
      lock.unlock();
      if (!output_metadata->deferrable && !output_metadata->resized_arguments.empty() && plan.generator < 0 &&
          !output_metadata->warns) {
        // The first run has resized the out= tensor. A second run is therefore an ordinary call and computes
        // the same result.
        torch::jit::Stack retry_stack(values.begin(), values.end());
        if (record(kernel, op, &retry_stack)) {
          return true;
        }
      }
      // The call has changed the metadata of an argument, returned a value to the host, or warned. It does
      // not become part of a graph.
      flush(/*wait=*/false);
      return true;
    }
    std::vector<c10::Storage> new_storages(output_metadata->storages.size());
    const std::vector<at::Tensor> results = engine::flattened_results(plan, *stack);
    for (std::size_t i = 0; i < results.size(); i++) {
      if (output_metadata->results[i].kind == engine::Result::Kind::New) {
        new_storages[static_cast<std::size_t>(output_metadata->results[i].source)] = results[i].storage();
      }
    }
    begin();  // a memory shortage has launched the graph
    const engine::CallArguments call_arguments(plan, values.data());
    append(kernel, op, call_arguments, output_metadata, values.data(), new_storages, /*has_run=*/true, 0);
    next = flush_request();
  }
  flush_as_requested(next);
  return true;
}

// Returns the flush that is required after a call. The recorder must be locked.
LazyRecorder::FlushRequest LazyRecorder::flush_request() {
  if (static_cast<std::int64_t>(recorded()) >= settings_.limit) {
    return settings_.limit_waits ? FlushRequest::FlushAndWait : FlushRequest::Flush;
  }
  const bool flushes = settings_.mode == LazyMode::EachOperator ||
                       (settings_.mode == LazyMode::Random && settings_.random() % 8 == 0);
  return flushes ? FlushRequest::Flush : FlushRequest::Nothing;
}

void LazyRecorder::flush_as_requested(FlushRequest flush_request) {
  if (flush_request != FlushRequest::Nothing) {
    flush(flush_request == FlushRequest::FlushAndWait);
  }
}

// Launches the recorded graph.
void LazyRecorder::launch(c10::StreamId stream) {
  for (std::size_t i = 0; i < table_->buffers().size(); i++) {
    Buffer& buffer = table_->buffers()[i];
    buffer.alive = table_->is_alive(i);
    if (buffer.role == Role::Temporary && buffer.alive) {
      buffer.role = Role::Output;
    }
    put(key_, buffer.role);
    put(key_, buffer.alive);
    put(key_, buffer.bytes);
  }
  const memory::AccessSet access_set = table_->access_set();
  const std::shared_ptr<CacheEntry> entry = find_or_add_entry(key_);
  if (followed_.entry != entry) {
    stop_following();
  }
  launcher_.predictor.launched(entry);
  if (followed_.active()) {
    launcher_.launch_followed(std::move(followed_), table_->buffers(), access_set, stream);
    return;
  }
  Graph graph;
  graph.buffers = std::move(table_->buffers());
  graph.calls = std::move(calls_);
  launcher_.launch(std::move(graph), has_run_, not_run_, entry, key_, removals_, access_set, stream);
}

void LazyRecorder::flush(bool wait) {
  c10::StreamId stream;
  bool waits_here = wait;
  {
    const Lock lock(mutex_);
    stream = runtime::g_recorded_on;
    if (table_.has_value()) {
      statistics_.flushes++;
      try {
        launch(stream);
      } catch (...) {
        drop_recorded();
        throw;
      }
      drop_recorded();
      waits_here |= !settings_.own_thread || !runtime::is_pipeline_enabled() || runtime::is_sync_debug_mode();
    }
  }
  if (waits_here) {
    runtime::drain(stream, /*throw_errors=*/wait);
  }
}

}  // namespace hpu_reference::graph
