#include "graph/capture.h"

#include <ATen/EmptyTensor.h>

#include <chrono>
#include <utility>

#include "engine/engine.h"
#include "graph/cache.h"
#include "memory/allocator.h"
#include "runtime/capture_scope.h"
#include "runtime/device.h"
#include "runtime/fork.h"
#include "runtime/host_access.h"
#include "runtime/log.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::graph {

namespace {

using Lock = std::lock_guard<runtime::YieldingMutex<runtime::LockRank::Graph>>;

std::size_t bytes_of(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(), static_cast<std::size_t>(tensor.storage_offset()));
}

// Throws if a storage that the graph needs has become too small.
void require_bytes(const c10::Storage& storage, std::size_t needed) {
  TORCH_CHECK(storage.nbytes() >= needed,
              "a storage that the graph uses was resized to ",
              storage.nbytes(),
              " bytes, but the graph needs ",
              needed,
              "; resize it back, or capture the graph again");
}

// Runs the recipe at once, or queues it if any queue has work. This function may wait, so the caller must not
// hold a lock.
void launch(const std::shared_ptr<Recipe>& recipe,
            Launch&& values,
            const memory::AccessSet& access_set,
            bool asynchronous) {
  runtime::acquire();  // throws in a forked child
  const c10::StreamId stream = runtime::current_stream_id();
  runtime::flush_recorded();
  const bool pipeline = runtime::is_pipeline_enabled() && !runtime::is_sync_debug_mode();
  count_launch();
  // Queue the recipe if any queue has work. A recipe that runs at once waits for this work if memory is
  // short. If the work is a launch of the same recipe, the wait would never end.
  if (pipeline && (asynchronous || runtime::is_queue_all() || runtime::has_pending_work())) {
    access_set.enqueue(
        stream, std::make_unique<RecipeWork>(recipe, std::move(values)), /*retain_memory=*/true);
    return;
  }
  if (runtime::is_work_pending()) {
    runtime::drain(stream, /*throw_errors=*/false);
    access_set.wait(stream);
  }
  access_set.check(stream, "a graph of " + std::to_string(recipe->graph().calls.size()) + " operators");
  const runtime::NoWaitScope scope;
  recipe->run(values);
}

}  // namespace

Capture::~Capture() {
  reset();
}

void Capture::begin(bool dry_run, bool this_thread) {
  runtime::acquire();
  runtime::flush_recorded();
  runtime::drain(runtime::current_stream_id(), /*throw_errors=*/true);
  const auto recording = std::make_shared<CaptureRecording>(dry_run, this_thread);
  runtime::begin_capture(recording);
  reset();
  runtime::log(runtime::LogModule::HpuGraph,
               runtime::LogLevel::Info,
               "a capture begins on stream ",
               runtime::current_stream_id());
  const Lock lock(mutex_);
  contents_.state = State::Capturing;
  contents_.stream = runtime::current_stream_id();
  contents_.recording = recording;
}

void Capture::end() {
  if (runtime::is_forked_child()) {
    runtime::throw_used_in_forked_child();
  }
  std::shared_ptr<CaptureRecording> recording;
  c10::StreamId stream = 0;
  {
    const Lock lock(mutex_);
    TORCH_CHECK(contents_.state == State::Capturing && contents_.recording != nullptr,
                "no capture is in progress; call capture_begin() first");
    recording = std::exchange(contents_.recording, nullptr);
    stream = contents_.stream;
  }
  runtime::end_capture(recording.get());
  Graph recorded = recording->finish();
  if (runtime::current_stream_id() != stream) {
    reset();
    TORCH_CHECK(false, "Capture must end on the same stream it began on.");
  }
  if (recording->has_resized()) {
    reset();
    TORCH_CHECK(false,
                "a storage with values was resized during hpu graph capturing, which a replay cannot repeat; "
                "move resize_() out of the capture");
  }
  runtime::log(runtime::LogModule::HpuGraph,
               runtime::LogLevel::Info,
               "captured ",
               recorded.calls.size(),
               " operators");
  const Lock lock(mutex_);
  if (contents_.state == State::Capturing) {  // another thread may have reset the graph meanwhile
    contents_.recorded = std::move(recorded);
    contents_.state = State::Ready;
  }
}

void Capture::reset() {
  Contents discarded;  // destroyed after the lock is released
  {
    const Lock lock(mutex_);
    std::swap(discarded, contents_);
  }
  if (discarded.recording != nullptr) {
    runtime::end_capture(discarded.recording.get());
    discarded.recorded = discarded.recording->finish();
  }
}

void Capture::require_ready(const char* method) const {
  TORCH_CHECK(!runtime::is_capturing() && contents_.state != State::Capturing,
              "Capture in progress: ",
              method,
              " has to wait until capture_end()");
  TORCH_CHECK(contents_.state == State::Ready, method, " needs a captured graph; capture one first");
}

void Capture::set_io_binding(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  const Lock lock(mutex_);
  require_ready("set_io_binding()");
  TORCH_CHECK(contents_.recipe == nullptr,
              "set_io_binding() must come before the first replay; capture again");
  contents_.io_binding.emplace(contents_.recorded, inputs, outputs);
}

void Capture::compile() {
  Contents& self = contents_;
  if (self.recipe != nullptr) {
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  auto owners = std::make_shared<std::vector<c10::Storage>>();
  std::vector<Buffer>& buffers = self.recorded.buffers;
  const bool has_io_binding = self.io_binding.has_value();
  const std::vector<bool> nothing(buffers.size(), false);
  const std::vector<bool> is_input =
      has_io_binding ? self.io_binding->input_buffers(buffers.size()) : nothing;
  const std::vector<bool> is_output =
      has_io_binding ? self.io_binding->output_buffers(buffers.size()) : nothing;
  for (std::size_t i = 0; i < buffers.size(); i++) {
    Buffer& buffer = buffers[i];
    self.addresses.push_back(buffer.address);
    if (buffer.role == Role::Input) {
      owners->push_back(is_input[i] ? c10::Storage() : buffer.owner);
    } else {
      // A buffer is alive if it is an output, or if references exist besides the table's and this loop's.
      buffer.alive = has_io_binding ? static_cast<bool>(is_output[i]) : buffer.owner.use_count() > 1;
      buffer.role = buffer.alive ? Role::Output : Role::Temporary;
      owners->push_back(buffer.alive && !has_io_binding ? buffer.owner : c10::Storage());
    }
    buffer.owner = c10::Storage();
    if (owners->back()) {
      memory::mark_used_later(owners->back().unsafeGetStorageImpl());
    }
  }
  self.owners = std::move(owners);
  self.recipe = std::make_shared<Recipe>(std::exchange(self.recorded, {}), /*constants=*/true);
  if (self.recipe->workspace_bytes() > 0) {
    self.workspace = allocate_device_storage(self.recipe->workspace_bytes(), /*in_order=*/false);
  }
  for (const engine::Call& call : self.recipe->graph().calls) {
    for (const Use& use : uses_of(call)) {
      if (use.tensor->has_storage() && self.recipe->graph().buffer_of(*use.tensor) < 0) {
        self.host_tensors.emplace_back(*use.tensor, bytes_of(*use.tensor));
      }
    }
  }
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  count_compilation("hpu_graph", static_cast<std::int64_t>(elapsed.count()));
}

void Capture::prepare() {
  const Lock lock(mutex_);
  require_ready("prepare()");
  compile();
}

Launch Capture::make_launch() const {
  Launch values;
  values.addresses = contents_.addresses;
  const std::vector<Buffer>& buffers = contents_.recipe->graph().buffers;
  for (std::size_t i = 0; i < contents_.owners->size(); i++) {
    if (const c10::Storage& owner = (*contents_.owners)[i]) {
      require_bytes(owner, buffers[i].bytes);
      if (void* address = address_of(i); C10_UNLIKELY(address != values.addresses[i])) {
        values.addresses[i] = address;
        memory::mark_used_later(owner.unsafeGetStorageImpl());
      }
    }
  }
  for (const auto& [tensor, bytes] : contents_.host_tensors) {
    require_bytes(tensor.storage(), bytes);
  }
  values.seeds = draw_seeds(*contents_.recipe);
  values.workspace = contents_.workspace;
  return values;
}

// Returns the memory that the graph owns.
memory::AccessSet Capture::access_set() const {
  memory::AccessSet access_set;
  for (std::size_t i = 0; i < contents_.owners->size(); i++) {
    if (const c10::Storage& owner = (*contents_.owners)[i]) {
      access_set.add(owner.unsafeGetStorageImpl(), contents_.recipe->writes(i));
    }
  }
  if (contents_.workspace) {
    access_set.add(contents_.workspace.unsafeGetStorageImpl(), /*written=*/true);
  }
  return access_set;
}

void Capture::replay(bool asynchronous) {
  std::shared_ptr<Recipe> recipe;
  Launch values;
  memory::AccessSet used;
  std::shared_ptr<const void> owners;  // another thread may reset the graph before the launch is recorded
  {
    const Lock lock(mutex_);
    require_ready("replay()");
    TORCH_CHECK(!contents_.io_binding.has_value(),
                "a graph with an interface is run with call(), not replay()");
    compile();
    recipe = contents_.recipe;
    values = make_launch();
    used = access_set();
    owners = contents_.owners;
  }
  launch(recipe, std::move(values), used, asynchronous);
}

bool Capture::accepts(const std::vector<at::Tensor>& inputs) const {
  const Lock lock(mutex_);
  return contents_.state == State::Ready && contents_.io_binding.has_value() &&
         contents_.io_binding->rejection_reason(inputs).empty();
}

std::vector<at::Tensor> Capture::call(const std::vector<at::Tensor>& inputs, bool asynchronous) {
  std::shared_ptr<Recipe> recipe;
  Launch values;
  memory::AccessSet used;
  std::shared_ptr<const void> owners;  // another thread may reset the graph before the launch
  std::vector<at::Tensor> results;
  {
    const Lock lock(mutex_);
    require_ready("call()");
    TORCH_CHECK(contents_.io_binding.has_value(), "call() needs set_io_binding() first");
    const IoBinding& io_binding = *contents_.io_binding;
    const std::string reason = io_binding.rejection_reason(inputs);
    TORCH_CHECK(
        reason.empty(), "the graph does not accept these inputs: ", reason, "; capture a graph for them");
    compile();
    recipe = contents_.recipe;
    values = make_launch();
    io_binding.place_inputs(inputs, values.addresses);
    used = access_set();
    owners = contents_.owners;
    io_binding.add_inputs(inputs, *recipe, used);
    const std::vector<c10::Storage> new_storages = io_binding.place_outputs(values.addresses);
    for (const c10::Storage& storage : new_storages) {
      if (storage) {
        used.add(storage.unsafeGetStorageImpl(), /*written=*/true);
      }
    }
    results = io_binding.outputs(inputs, new_storages);
  }
  launch(recipe, std::move(values), used, asynchronous);
  return results;
}

bool Capture::is_capturing() const {
  const Lock lock(mutex_);
  return contents_.state == State::Capturing;
}

bool Capture::is_recording_current_stream() const {
  const Lock lock(mutex_);
  return contents_.recording != nullptr && runtime::current_capture() == contents_.recording;
}

std::shared_ptr<const Graph> Capture::snapshot() const {
  const Lock lock(mutex_);
  if (contents_.recipe != nullptr) {
    return {contents_.recipe, &contents_.recipe->graph()};
  }
  auto copy = std::make_shared<Graph>(contents_.recorded);
  for (Buffer& buffer : copy->buffers) {
    buffer.owner = c10::Storage();  // with another reference, the buffer would be treated as alive
  }
  return copy;
}

std::size_t Capture::size() const {
  const Lock lock(mutex_);
  return graph().calls.size();
}

bool Capture::is_fused() const {
  const Lock lock(mutex_);
  return contents_.recipe != nullptr && contents_.recipe->fused();
}

std::int64_t Capture::fused_runs() const {
  const Lock lock(mutex_);
  return contents_.recipe == nullptr ? 0 : contents_.recipe->fused_runs();
}

// Returns the recipe's graph, or the recorded graph before the passes.
const Graph& Capture::graph() const {
  return contents_.recipe != nullptr ? contents_.recipe->graph() : contents_.recorded;
}

// Returns the host address of the buffer's present memory; its storage may have been resized.
void* Capture::address_of(std::size_t buffer) const {
  const bool compiled = contents_.recipe != nullptr;
  const c10::Storage& owner =
      compiled ? (*contents_.owners)[buffer] : contents_.recorded.buffers[buffer].owner;
  if (owner) {
    const void* data = owner.data_ptr().get();
    return data == nullptr ? nullptr : memory::arena().to_host(data);
  }
  return compiled ? contents_.addresses[buffer] : contents_.recorded.buffers[buffer].address;
}

bool Capture::accesses(const at::Tensor& tensor) const {
  require_dense(tensor, "tensors");
  const void* data = tensor.storage().data_ptr().get();
  const void* address = data == nullptr ? nullptr : memory::arena().to_host(const_cast<void*>(data));
  const Lock lock(mutex_);
  const Graph& graph = this->graph();
  for (const engine::Call& call : graph.calls) {
    for (const Use& use : uses_of(call)) {
      const int buffer = graph.buffer_of(*use.tensor);
      if (buffer >= 0 && address != nullptr) {
        const auto at = static_cast<std::size_t>(buffer);
        if (address_of(at) == address) {
          return true;
        }
      }
    }
  }
  return false;
}

std::vector<std::string> Capture::operators() const {
  const Lock lock(mutex_);
  std::vector<std::string> names;
  for (const engine::Call& call : graph().calls) {
    names.push_back(call.plan->name);
  }
  return names;
}

std::size_t Capture::memory_bytes() const {
  const Lock lock(mutex_);
  const bool compiled = contents_.recipe != nullptr;
  std::size_t bytes = compiled ? contents_.recipe->workspace_bytes() : 0;
  for (const Buffer& buffer : graph().buffers) {
    bytes += !compiled || buffer.role == Role::Output ? buffer.bytes : 0;
  }
  return bytes;
}

std::string Capture::dump(const std::string& format) const {
  TORCH_CHECK(format == "text" || format == "dot", "a graph is dumped as text or dot, not as ", format);
  const Lock lock(mutex_);
  return format == "text" ? to_text(graph()) : to_dot(graph());
}

void Capture::set_fused(const std::string& path, const std::vector<AotiArgument>& arguments) {
  const Lock lock(mutex_);
  require_ready("set_fused()");
  compile();
  contents_.recipe->set_fused(std::make_shared<AotiProgram>(path, arguments, contents_.recipe->graph()));
}

}  // namespace hpu_reference::graph
