#include "graph/lazy.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "engine/call.h"
#include "engine/engine.h"
#include "engine/learned.h"
#include "graph/cache.h"
#include "graph/recipe.h"
#include "kernels/host_kernel.h"
#include "kernels/operator_plan.h"
#include "memory/allocator.h"
#include "memory/footprint.h"
#include "runtime/generator.h"
#include "runtime/host_access.h"
#include "runtime/interpreter.h"
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

// The calls of a graph that was not seen before, run at the addresses of their recording.
class CallsWork final : public runtime::Work {
 public:
  CallsWork(std::vector<engine::Call>&& calls, std::string name)
      : calls_(std::move(calls)), name_(std::move(name)) {
  }
  void run() override {
    for (const engine::Call& call : calls_) {
      try {
        call.run();
      } catch (c10::Error& error) {
        error.add_context("(in " + call.name() + ")");
        throw;
      }
    }
  }
  std::string name() const override {
    return name_;
  }

 private:
  std::vector<engine::Call> calls_;
  std::string name_;
};

using Lock = std::unique_lock<runtime::YieldingMutex<runtime::LockRank::Recorder>>;

constexpr std::int64_t kHot = 16;  // launches
std::mutex g_hot_mutex;
std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> g_hot;

class LazyRecorder final : public engine::Recorder {
 public:
  bool record(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              torch::jit::Stack* stack) override;
  void flush(bool wait);

  struct Settings {
    LazyMode mode = LazyMode::Graphs;
    std::mt19937_64 random;
    std::int64_t limit = INT64_MAX;
    bool limit_waits = false;
    bool own_thread = true;
    std::string dump_folder;
    bool dumps_text = false;
    bool dumps_dot = false;
  };
  // Changes the settings between two calls of other threads.
  template <class Change>
  void set(const Change& change) {
    const Lock lock(mutex_);
    change(settings_);
  }
  LazyStatistics statistics() {
    const Lock lock(mutex_);
    return statistics_;
  }

 private:
  void dump(const Graph& graph, const std::string& name) const;
  bool record_new(const kernels::HostKernel& kernel,
                  const c10::OperatorHandle& op,
                  const engine::CallArguments& arguments,
                  torch::jit::Stack* stack);
  enum class Due { Nothing, Flush, FlushAndWait };
  Due due();
  void follow(Due due);
  void begin();
  void catch_up();
  void append(const kernels::HostKernel& kernel,
              const c10::OperatorHandle& op,
              const engine::CallArguments& arguments,
              const engine::LearnedPtr& learned,
              const c10::IValue* values,
              const std::vector<c10::Storage>& fresh,
              bool has_run,
              std::uint64_t seed);
  void describe(const engine::Call& call,
                const engine::CallArguments& arguments,
                const std::vector<c10::Storage>& fresh);
  void launch(Graph&& graph,
              const std::vector<bool>& has_run,
              std::size_t not_run,
              const std::shared_ptr<CacheEntry>& entry,
              const memory::Footprint& footprint,
              c10::StreamId stream);
  Lock lock_when_ready(const memory::Footprint& arguments);

  // Autograd's threads record into the same graph. A thread never waits for a stream with it in hand, except
  // for memory.
  runtime::YieldingMutex<runtime::LockRank::Recorder> mutex_;
  std::optional<BufferTable> table_;
  std::vector<engine::Call> calls_;
  std::vector<bool> has_run_;
  std::string key_;  // of the graph so far
  std::size_t not_run_ = 0;
  Settings settings_;
  LazyStatistics statistics_;
};

void LazyRecorder::begin() {
  if (table_.has_value() && calls_.empty()) {
    table_.reset();  // a call that raised has left it; what was made since is not its graph's
  }
  if (!table_.has_value()) {
    table_.emplace();
    runtime::g_recorded_on = runtime::current_stream_id();
    memory::pool().set_recording(table_->epoch(), runtime::queue_of(runtime::g_recorded_on));
  } else if (runtime::g_recorded_on != runtime::current_stream_id()) {
    flush(/*wait=*/false);
    begin();
  }
}

// Appends to the graph's key all that decides what it computes: the calls, their values that are not lifted,
// and the buffers they use. The learned metadata's id represents everything that its key contains.
void LazyRecorder::describe(const engine::Call& call,
                            const engine::CallArguments& arguments,
                            const std::vector<c10::Storage>& fresh) {
  put(key_, call.learned->id);
  for (const auto& argument : arguments.tensors()) {
    const int position = argument.device ? table_->position(storage_of(*argument.tensor)) : -2;
    if (argument.written && position >= 0) {
      table_->mark_written(position);
    }
    put(key_, position);
  }
  for (const c10::Storage& storage : fresh) {
    const int position = table_->position(storage.unsafeGetStorageImpl());
    if (position >= 0) {
      table_->mark_written(position);
    }
    put(key_, position);
  }
}

void LazyRecorder::append(const kernels::HostKernel& kernel,
                          const c10::OperatorHandle& op,
                          const engine::CallArguments& arguments,
                          const engine::LearnedPtr& learned,
                          const c10::IValue* values,
                          const std::vector<c10::Storage>& fresh,
                          bool has_run,
                          std::uint64_t seed) {
  const engine::ResolveStorage resolve = [&](c10::StorageImpl* device) { return table_->host(device); };
  engine::Call call = engine::make_call(kernel.plan(), op, kernel.key(), values, arguments, learned, resolve);
  std::vector<engine::HostStorage> storages;
  storages.reserve(fresh.size());
  for (const c10::Storage& storage : fresh) {
    storages.push_back(table_->host(storage.unsafeGetStorageImpl()));
    // Also if the allocation itself has made the recorder start anew.
    if (const int position = table_->position(storage.unsafeGetStorageImpl()); position >= 0) {
      table_->buffers()[static_cast<std::size_t>(position)].role = Role::Temporary;
    }
  }
  engine::set_fresh(call, std::move(storages));
  call.seed = seed;
  describe(call, arguments, fresh);
  calls_.push_back(std::move(call));
  has_run_.push_back(has_run);
  not_run_ += has_run ? 0 : 1;
  statistics_.recorded++;
  runtime::g_recorded.store(static_cast<std::int64_t>(calls_.size()), std::memory_order_release);
}

// Locks the recorder at a moment at which the recorded calls and one with these arguments may run at once:
// all that was launched on their stream has run, and what other streams do with their memory.
Lock LazyRecorder::lock_when_ready(const memory::Footprint& arguments) {
  memory::Footprint recorded;
  for (;;) {
    const c10::StreamId stream = runtime::current_stream_id();
    runtime::drain(stream, /*surface=*/false);
    recorded.wait(stream);
    arguments.wait(stream);
    Lock lock(mutex_);
    begin();  // it may launch a graph of another stream, which the arguments then wait for
    recorded = table_->footprint();
    if (runtime::is_queue_idle(stream) && !recorded.has_conflicts(stream) &&
        !arguments.has_conflicts(stream)) {
      return lock;
    }
  }
}

// Runs what is recorded and has not run, without ending the graph. The stream is idle.
void LazyRecorder::catch_up() {
  for (std::size_t i = 0; i < calls_.size() && not_run_ > 0; i++) {
    if (!has_run_[i]) {
      has_run_[i] = true;
      not_run_--;
      const runtime::InlineScope scope;
      try {
        calls_[i].run();
      } catch (...) {  // not the error of the operator that asks for this
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
    return false;  // HostCall launches what is recorded first
  }
  const engine::CallArguments arguments(plan, stack->data() + (stack->size() - plan.arguments));
  if (!arguments.deferrable() || plan.depends_on_data(stack->data() + (stack->size() - plan.arguments))) {
    return false;
  }
  engine::LearnedPtr learned = engine::find_learned(arguments.key());
  if (learned != nullptr && !learned->deferrable) {
    if (learned->grown.empty()) {
      return false;
    }
    engine::grow(*learned, arguments);
    return record(kernel, op, stack);
  }
  if (learned == nullptr) {
    return record_new(kernel, op, arguments, stack);
  }
  std::uint64_t seed = 0;
  if (plan.generator >= 0) {
    const c10::IValue& given =
        stack->at(stack->size() - plan.arguments + static_cast<std::size_t>(plan.generator));
    seed = runtime::draw_seed(given.isGenerator() ? std::make_optional(given.toGenerator()) : std::nullopt);
  }
  const c10::IValue* values = stack->data() + (stack->size() - plan.arguments);
  std::vector<c10::Storage> fresh;
  Due next;
  {
    const Lock lock(mutex_);
    begin();
    fresh = engine::allocate_results(*learned);
    begin();  // memory that ran short has launched the graph
    append(kernel, op, arguments, learned, values, fresh, /*has_run=*/false, seed);
    next = due();
  }
  engine::push_results(*learned, arguments, plan.arguments, fresh, stack);
  follow(next);
  return true;
}

// Records a call that was not seen before, by running it.
bool LazyRecorder::record_new(const kernels::HostKernel& kernel,
                              const c10::OperatorHandle& op,
                              const engine::CallArguments& arguments,
                              torch::jit::Stack* stack) {
  const kernels::OperatorPlan& plan = kernel.plan();
  // These references die after the lock.
  const std::vector<c10::IValue> values(stack->end() - static_cast<std::ptrdiff_t>(plan.arguments),
                                        stack->end());
  const std::string key = arguments.key();  // waiting may use the thread's
  Due next;
  {
    Lock lock = lock_when_ready(engine::footprint_of(plan, values.data()));
    catch_up();
    statistics_.caught_up++;
    const engine::LearnedPtr learned = engine::run_and_learn(kernel, op, key, stack);
    if (!learned->deferrable || learned->warns) {
      lock.unlock();
      if (!learned->deferrable && !learned->grown.empty() && plan.generator < 0 && !learned->warns) {
        // Its out= has its size now: a second run is an ordinary call and computes the same.
        torch::jit::Stack again(values.begin(), values.end());
        if (record(kernel, op, &again)) {
          return true;
        }
      }
      // It has changed the metadata of an argument, answered the host, or warned: not part of any graph.
      flush(/*wait=*/false);
      return true;
    }
    std::vector<c10::Storage> fresh(learned->storages.size());
    const std::vector<at::Tensor> results = engine::flattened_results(plan, *stack);
    for (std::size_t i = 0; i < results.size(); i++) {
      if (learned->results[i].kind == engine::Result::Kind::Fresh) {
        fresh[static_cast<std::size_t>(learned->results[i].source)] = results[i].storage();
      }
    }
    begin();  // memory that ran short has launched the graph
    const engine::CallArguments looked_at(plan, values.data());
    append(kernel, op, looked_at, learned, values.data(), fresh, /*has_run=*/true, 0);
    next = due();
  }
  follow(next);
  return true;
}

// What to do behind a call; the recorder is locked.
LazyRecorder::Due LazyRecorder::due() {
  if (static_cast<std::int64_t>(calls_.size()) >= settings_.limit) {
    return settings_.limit_waits ? Due::FlushAndWait : Due::Flush;
  }
  const bool flushes = settings_.mode == LazyMode::EachOperator ||
                       (settings_.mode == LazyMode::Random && settings_.random() % 8 == 0);
  return flushes ? Due::Flush : Due::Nothing;
}

void LazyRecorder::follow(Due due) {
  if (due != Due::Nothing) {
    flush(due == Due::FlushAndWait);
  }
}

void LazyRecorder::flush(bool wait) {
  c10::StreamId stream;
  bool waits_here = wait;
  {
    const Lock lock(mutex_);
    stream = runtime::g_recorded_on;
    if (table_.has_value()) {
      statistics_.flushes++;
      Graph graph;
      graph.buffers = std::move(table_->buffers());
      for (std::size_t i = 0; i < graph.buffers.size(); i++) {
        Buffer& buffer = graph.buffers[i];
        buffer.alive = table_->is_alive(i);
        if (buffer.role == Role::Temporary && buffer.alive) {
          buffer.role = Role::Output;
        }
        put(key_, buffer.role);
        put(key_, buffer.alive);
        put(key_, buffer.bytes);
      }
      // Whatever happens below, the next graph begins empty.
      graph.calls = std::exchange(calls_, {});
      const std::vector<bool> has_run = std::exchange(has_run_, {});
      const std::size_t not_run = std::exchange(not_run_, 0);
      const std::string key = std::exchange(key_, {});
      const memory::Footprint footprint = table_->footprint();
      table_.reset();
      const auto end = [] {
        memory::pool().set_recording(0, 0);
        runtime::g_recorded.store(0, std::memory_order_release);
      };
      try {
        launch(std::move(graph), has_run, not_run, find_or_add_entry(key), footprint, stream);
      } catch (...) {
        end();
        throw;
      }
      end();
      waits_here |= !settings_.own_thread || !runtime::is_pipeline_enabled() || runtime::is_sync_debug_mode();
    }
  }
  if (waits_here) {
    runtime::drain(stream, /*surface=*/wait);
  }
}

// Writes the graph in the forms that are asked for; one that cannot be written costs a warning.
void LazyRecorder::dump(const Graph& graph, const std::string& name) const {
  const auto write = [&](const char* suffix, const std::string& contents) {
    const std::string path = settings_.dump_folder + "/" + name + "_" + std::to_string(getpid()) + suffix;
    std::ofstream file(path);
    file << contents;
    if (!file.flush()) {
      TORCH_WARN("cannot write the graph to ", path, "; give PT_HPU_GRAPH_DUMP_PREFIX a folder to write to");
    }
  };
  if (settings_.dumps_text) {
    write(".txt", to_text(graph));
  }
  if (settings_.dumps_dot) {
    write(".dot", to_dot(graph));
  }
}

void LazyRecorder::launch(Graph&& graph,
                          const std::vector<bool>& has_run,
                          std::size_t not_run,
                          const std::shared_ptr<CacheEntry>& entry,
                          const memory::Footprint& footprint,
                          c10::StreamId stream) {
  engine::counters().launched.fetch_add(1, std::memory_order_relaxed);
  const bool whole = not_run == graph.calls.size();
  const bool first = entry->launches++ == 0;
  const auto start = std::chrono::steady_clock::now();
  if (first) {
    count_miss(entry->name);
  } else {
    count_hit(entry->name);
  }
  if (not_run == 0) {
    if (first) {
      count_compilation(entry->name, 1);
    }
    return;
  }
  if (!whole || entry->launches == 1) {
    std::vector<engine::Call> calls;
    for (std::size_t i = 0; i < graph.calls.size(); i++) {
      if (!has_run[i]) {
        calls.push_back(std::move(graph.calls[i]));
      }
    }
    const std::string name = "a graph of " + std::to_string(calls.size()) + " operators";
    if (first) {
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      count_compilation(entry->name, static_cast<std::int64_t>(elapsed.count()) + 1);
    }
    footprint.enqueue(stream, std::make_unique<CallsWork>(std::move(calls), name), /*keeps=*/true);
    return;
  }
  Launch given;
  bool random = false;
  for (const Buffer& buffer : graph.buffers) {
    given.addresses.push_back(buffer.address);
  }
  for (const engine::Call& call : graph.calls) {
    random |= call.random();
    given.seeds.push_back(call.seed);
    for (const int position : call.lifted) {
      given.lifted.push_back(call.arguments[static_cast<std::size_t>(position)]);
    }
  }
  if (!random) {
    given.seeds.clear();
  }
  if (entry->recipe == nullptr) {
    dump(graph, entry->name);
    entry->recipe = std::make_shared<Recipe>(std::move(graph), /*constants=*/false);
  }
  if (const std::size_t bytes = entry->recipe->workspace_bytes()) {
    try {
      // The graph still reads what was freed while it was recorded.
      given.workspace = c10::Storage(c10::Storage::use_byte_size_t(),
                                     bytes,
                                     memory::allocate_device(bytes, /*in_order=*/false),
                                     memory::device_allocator(),
                                     /*resizable=*/false);
    } catch (const c10::OutOfMemoryError&) {
      // Temporaries have memory from the recording, which is good as long as each is used in its own time
      // only.
      if (entry->recipe->has_merged_calls()) {
        throw;
      }
      given.at_recorded_addresses = true;
    }
  }
  if (entry->launches == kHot) {
    const std::lock_guard<std::mutex> lock(g_hot_mutex);
    g_hot.emplace_back(entry->name, entry->recipe);
  }
  footprint.enqueue(stream, std::make_unique<RecipeWork>(entry->recipe, std::move(given)), /*keeps=*/true);
}

LazyRecorder* g_recorder = nullptr;

void flush_now() {
  if (!runtime::is_running_work()) {
    g_recorder->flush(/*wait=*/false);
  }
}

}  // namespace

void start_lazy(LazyMode mode, std::uint64_t seed) {
  if (g_recorder == nullptr) {
    g_recorder = new LazyRecorder();
    runtime::g_flush_recorded = &flush_now;
    engine::set_lazy(g_recorder);
  }
  g_recorder->set([&](auto& settings) {
    settings.mode = mode;
    settings.random.seed(seed);
  });
}

bool is_lazy() {
  return g_recorder != nullptr;
}

void flush_lazy(bool wait) {
  if (g_recorder != nullptr) {
    g_recorder->flush(wait);
    runtime::release_finished_work();
  }
}

std::int64_t recorded_calls() {
  return runtime::g_recorded;
}

void set_lazy_limits(std::int64_t calls, bool wait) {
  TORCH_CHECK(calls > 0, "a lazy graph holds at least 1 operator, but a limit of ", calls, " was given");
  TORCH_CHECK(g_recorder != nullptr, "lazy mode is not on; set PT_HPU_LAZY_MODE=1");
  g_recorder->set([&](auto& settings) {
    settings.limit = calls;
    settings.limit_waits = wait;
  });
}

void set_lazy_thread(bool on) {
  if (g_recorder != nullptr) {
    g_recorder->set([&](auto& settings) { settings.own_thread = on; });
  }
}

void dump_lazy_graphs(const std::string& folder, bool text, bool dot) {
  TORCH_CHECK(g_recorder != nullptr, "lazy mode is not on; set PT_HPU_LAZY_MODE=1");
  g_recorder->set([&](auto& settings) {
    settings.dump_folder = folder;
    settings.dumps_text = text;
    settings.dumps_dot = dot;
  });
}

LazyStatistics lazy_statistics() {
  return g_recorder == nullptr ? LazyStatistics() : g_recorder->statistics();
}

std::vector<std::pair<std::string, std::shared_ptr<Recipe>>> take_hot_recipes() {
  const std::lock_guard<std::mutex> lock(g_hot_mutex);
  return std::move(g_hot);
}

bool is_untouched(const c10::StorageImpl* storage) {
  memory::Block* block = memory::block_of(storage->data_ptr());
  return block != nullptr && !block->ordered && block->recorded_in.load(std::memory_order_acquire) == 0;
}

}  // namespace hpu_reference::graph
