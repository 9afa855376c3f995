#include "graph/capture.h"

#include <ATen/EmptyTensor.h>

#include <chrono>
#include <cstring>
#include <tuple>

#include "engine/call.h"
#include "engine/learned.h"
#include "graph/cache.h"
#include "kernels/host_call.h"
#include "kernels/host_kernel.h"
#include "kernels/operator_plan.h"
#include "memory/allocator.h"
#include "runtime/device.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace hpu_reference::graph {

namespace {

std::atomic<bool> g_claimed{false};  // from the beginning of begin() on
std::atomic<Capture*> g_current{nullptr};

void give_up_claim() {
  engine::set_capture(nullptr);
  g_current = nullptr;
  g_claimed = false;
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

engine::Result metadata_of(const at::Tensor& tensor) {
  engine::Result result;
  result.kind = engine::Result::Kind::Fresh;
  result.dtype = tensor.scalar_type();
  result.sizes = tensor.sizes();
  result.strides = tensor.strides();
  result.offset = tensor.storage_offset();
  result.conj = tensor.is_conj();
  result.neg = tensor.is_neg();
  return result;
}

at::Tensor make_tensor(const c10::Storage& storage, const engine::Result& metadata, std::int64_t offset) {
  c10::DispatchKeySet keys(c10::DispatchKey::HPU);
  if (metadata.conj) {
    keys = keys.add(c10::DispatchKey::Conjugate);
  }
  if (metadata.neg) {
    keys = keys.add(c10::DispatchKey::Negative);
  }
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage), keys, c10::scalarTypeToTypeMeta(metadata.dtype));
  impl->set_sizes_and_strides(metadata.sizes, metadata.strides, offset);
  return at::Tensor(std::move(impl));
}

c10::Storage device_storage(std::size_t bytes) {
  return {c10::Storage::use_byte_size_t(),
          bytes,
          memory::allocate_device(bytes),
          memory::device_allocator(),
          /*resizable=*/true};
}

void require_dense(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(tensor.defined() && kernels::is_device_tensor(tensor) && tensor.has_storage() &&
                  tensor.layout() == c10::kStrided,
              what,
              " of an HPU graph must be dense tensors on hpu; move or convert the others first");
}

}  // namespace

Capture::~Capture() {
  reset();
}

void Capture::begin(bool dry_run) {
  runtime::acquire();
  runtime::flush_recorded();
  runtime::drain(runtime::current_stream_id(), /*surface=*/true);
  TORCH_CHECK(!g_claimed.exchange(true), "GRAPH:: graph Capture already in progress");
  reset();
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  stream_ = runtime::current_stream_id();
  dry_run_ = dry_run;
  table_.emplace(/*keeps_memory=*/true);
  state_ = State::Capturing;
  engine::set_capture(this);
  g_current = this;
}

void Capture::end() {
  TORCH_CHECK(state_ == State::Capturing, "no capture is in progress; call capture_begin() first");
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  give_up_claim();
  state_ = State::Ready;
  restore();
  if (runtime::current_stream_id() != stream_) {
    reset();
    TORCH_CHECK(false, "Capture must end on the same stream it began on.");
  }
  recorded_.buffers = std::move(table_->buffers());
  recorded_.index();
}

void Capture::reset() {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (state_ == State::Capturing) {
    give_up_claim();
    restore();
  }
  state_ = State::Empty;
  recipe_.reset();
  recorded_ = Graph();
  table_.reset();
  saved_.clear();
  addresses_.clear();
  owners_.reset();
  static_.clear();
  workspace_ = c10::Storage();
  has_interface_ = false;
  inputs_.clear();
  outputs_.clear();
}

void Capture::require_ready(const char* what) const {
  TORCH_CHECK(!g_claimed.load(), "Capture in progress: ", what, " has to wait until capture_end()");
  TORCH_CHECK(state_ == State::Ready, what, " needs a captured graph; capture one first");
}

void Capture::save(const c10::StorageImpl* device) {
  const int position = table_->position(device);
  if (position >= 0 && table_->buffers()[static_cast<std::size_t>(position)].role == Role::Input) {
    const Buffer& buffer = table_->buffers()[static_cast<std::size_t>(position)];
    saved_.try_emplace(position, static_cast<const char*>(buffer.address), buffer.bytes);
  }
}

void Capture::save_written(const engine::CallArguments& arguments) {
  for (const auto& argument : arguments.tensors()) {
    if (argument.written && argument.device) {
      save(storage_of(*argument.tensor));
    }
  }
}

// Waits for the work in the stream, since a captured call runs at once.
void Capture::finish_earlier_work() {
  const c10::StreamId stream = runtime::current_stream_id();
  if (!runtime::is_queue_idle(stream)) {
    runtime::drain(stream, /*surface=*/false);
  }
}

void Capture::restore() {
  for (const auto& [position, bytes] : saved_) {
    std::memcpy(table_->buffers()[static_cast<std::size_t>(position)].address, bytes.data(), bytes.size());
  }
  saved_.clear();
  for (auto& [storage, bytes] : saved_host_) {
    std::memcpy(storage.mutable_data(), bytes.data(), bytes.size());
  }
  saved_host_.clear();
}

bool Capture::record(const kernels::HostKernel& kernel,
                     const c10::OperatorHandle& op,
                     torch::jit::Stack* stack) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (state_ != State::Capturing) {
    return false;  // it has ended meanwhile
  }
  finish_earlier_work();
  TORCH_CHECK(kernel.is_dense(),
              kernel.plan().name,
              " takes tensors that are not dense, which hpu graph capturing does not support; move it out of "
              "the capture");
  run_recorded(kernel, op, stack);
  return true;
}

void Capture::run_recorded(const kernels::HostKernel& kernel,
                           const c10::OperatorHandle& op,
                           torch::jit::Stack* stack) {
  const kernels::OperatorPlan& plan = kernel.plan();
  const std::vector<c10::IValue> before(stack->end() - static_cast<std::ptrdiff_t>(plan.arguments),
                                        stack->end());
  const engine::CallArguments arguments(plan, before.data());
  const auto refuse = [&](const char* reason) {
    TORCH_CHECK(
        false, plan.name, " cannot be part of an HPU graph: ", reason, "; move it out of the capture");
  };
  if (!arguments.deferrable()) {
    refuse(arguments.reason());
  }
  if (plan.grows_storage) {
    const std::size_t held = storage_of(before[0].toTensor())->nbytes();
    const runtime::InlineScope scope;
    kernel.run(op, stack);
    if (held > 0 && storage_of(before[0].toTensor())->nbytes() > held) {
      refuse("it moves a tensor to larger memory");
    }
    return;
  }
  if (plan.name == "aten::_efficientzerotensor") {  // has no memory, so there is nothing to repeat
    const runtime::InlineScope scope;
    kernel.run(op, stack);
    return;
  }
  if (plan.data_dependent) {
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
  const bool is_out = plan.writes_out_only;  // running it again gives the same
  engine::LearnedPtr learned = engine::find_learned(arguments.key());
  if (learned == nullptr || (is_out && !learned->deferrable)) {
    learned = engine::run_and_learn(kernel, op, std::string(arguments.key()), stack);
  } else if (learned->deferrable) {
    const runtime::InlineScope scope;
    kernel.run(op, stack);
  }
  if (!keeps_memory()) {
    refuse("it gives an out= tensor other memory, which calls before it use");
  }
  if (is_out && !learned->deferrable) {
    // It has made room in its out= tensors; now that they have it, the call can be repeated.
    torch::jit::Stack again(before.begin(), before.end());
    const engine::CallArguments roomy(plan, before.data());
    learned = engine::run_and_learn(kernel, op, std::string(roomy.key()), &again);
  }
  if (!learned->deferrable) {
    refuse(learned->reason);
  }
  const engine::CallArguments looked_at(plan, before.data());
  const engine::ResolveStorage resolve = [&](c10::StorageImpl* device) { return table_->host(device); };
  engine::Call call = engine::make_call(plan, op, kernel.key(), before.data(), looked_at, learned, resolve);
  std::vector<engine::HostStorage> fresh(learned->storages.size());
  const std::vector<at::Tensor> results = engine::flattened_results(plan, *stack);
  for (std::size_t i = 0; i < results.size(); i++) {
    if (learned->results[i].kind == engine::Result::Kind::Fresh) {
      fresh[static_cast<std::size_t>(learned->results[i].source)] = table_->host(storage_of(results[i]));
      if (const int position = table_->position(storage_of(results[i])); position >= 0) {
        table_->buffers()[static_cast<std::size_t>(position)].role = Role::Temporary;
      }
    }
  }
  engine::set_fresh(call, std::move(fresh));
  recorded_.calls.push_back(std::move(call));
}

void Capture::record_host_copy(at::Tensor& self,
                               const at::Tensor& source,
                               const std::function<void()>& copy) {
  static const auto* plan =
      new kernels::OperatorPlan(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (state_ != State::Capturing) {
    copy();
    return;
  }
  finish_earlier_work();
  if (dry_run_ && kernels::is_device_tensor(self)) {
    save(storage_of(self));
  } else if (dry_run_) {
    saved_host_.emplace_back(
        self.storage(),
        std::string(static_cast<const char*>(self.storage().data()), self.storage().nbytes()));
  }
  copy();
  recorded_.calls.push_back(engine::make_host_copy(
      *plan, self, source, [&](c10::StorageImpl* device) { return table_->host(device); }));
}

void Capture::set_interface(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  require_ready("set_interface()");
  TORCH_CHECK(recipe_ == nullptr, "set_interface() must come before the first replay; capture again");
  std::unordered_map<const c10::StorageImpl*, int> positions;
  for (std::size_t i = 0; i < recorded_.buffers.size(); i++) {
    positions[recorded_.buffers[i].owner.unsafeGetStorageImpl()] = static_cast<int>(i);
  }
  const auto slot_of = [&](const at::Tensor& tensor, const char* what) {
    require_dense(tensor, what);
    Slot slot;
    const auto found = positions.find(storage_of(tensor));
    slot.buffer = found == positions.end() ? -1 : found->second;
    slot.metadata = metadata_of(tensor);
    slot.bytes = storage_of(tensor)->nbytes();
    return slot;
  };
  std::vector<std::pair<std::size_t, std::size_t>> reach(recorded_.buffers.size(), {SIZE_MAX, 0});
  for (const engine::Call& call : recorded_.calls) {
    for (const Use& use : uses_of(call)) {
      const int buffer = recorded_.buffer_of(*use.tensor);
      if (buffer >= 0 && use.tensor->numel() > 0) {
        auto& [begin, end] = reach[static_cast<std::size_t>(buffer)];
        const auto offset = static_cast<std::size_t>(use.tensor->storage_offset());
        begin = std::min(begin, offset * use.tensor->itemsize());
        end = std::max(end,
                       at::detail::computeStorageNbytes(
                           use.tensor->sizes(), use.tensor->strides(), use.tensor->itemsize(), offset));
      }
    }
  }
  inputs_.clear();
  outputs_.clear();
  std::unordered_map<const c10::StorageImpl*, std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    Slot slot = slot_of(inputs[i], "inputs");
    slot.first = first.emplace(storage_of(inputs[i]), i).first->second;
    if (slot.first != i) {
      slot.unique = inputs_[slot.first].unique = false;
    }
    if (slot.buffer >= 0 && reach[static_cast<std::size_t>(slot.buffer)].second > 0) {
      std::tie(slot.begin, slot.end) = reach[static_cast<std::size_t>(slot.buffer)];
    }
    inputs_.push_back(std::move(slot));
  }
  for (const at::Tensor& tensor : outputs) {
    Slot slot = slot_of(tensor, "outputs");
    if (const auto found = first.find(storage_of(tensor)); found != first.end()) {
      slot.input = static_cast<int>(found->second);
    } else if (slot.buffer < 0 ||
               recorded_.buffers[static_cast<std::size_t>(slot.buffer)].role == Role::Input) {
      slot.kept = tensor.detach();
    }
    outputs_.push_back(std::move(slot));
  }
  for (const Buffer& buffer : recorded_.buffers) {
    const c10::StorageImpl* storage = buffer.owner.unsafeGetStorageImpl();
    if (buffer.role == Role::Input && first.count(storage) == 0) {
      static_.insert(storage);
    }
  }
  has_interface_ = true;
}

void Capture::compile() {
  if (recipe_ != nullptr) {
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  owners_ = std::make_shared<std::vector<c10::Storage>>();
  std::vector<bool> exchanged(recorded_.buffers.size(), false);
  std::vector<bool> is_output(recorded_.buffers.size(), false);
  for (const Slot& slot : inputs_) {
    if (slot.buffer >= 0) {
      exchanged[static_cast<std::size_t>(slot.buffer)] = true;
    }
  }
  for (const Slot& slot : outputs_) {
    if (slot.buffer >= 0) {
      is_output[static_cast<std::size_t>(slot.buffer)] = true;
    }
  }
  for (std::size_t i = 0; i < recorded_.buffers.size(); i++) {
    Buffer& buffer = recorded_.buffers[i];
    addresses_.push_back(buffer.address);
    if (buffer.role == Role::Input) {
      owners_->push_back(exchanged[i] ? c10::Storage() : buffer.owner);
    } else {
      // Alive if it has a reference besides the table's and this loop's, or if it is an output.
      buffer.alive = has_interface_ ? static_cast<bool>(is_output[i]) : buffer.owner.use_count() > 1;
      buffer.role = buffer.alive ? Role::Output : Role::Temporary;
      owners_->push_back(buffer.alive && !has_interface_ ? buffer.owner : c10::Storage());
    }
    buffer.owner = c10::Storage();
    if (owners_->back()) {
      memory::touch(owners_->back().unsafeGetStorageImpl());
    }
  }
  recipe_ = std::make_shared<Recipe>(std::move(recorded_), /*constants=*/true);
  recorded_ = Graph();
  if (recipe_->workspace_bytes() > 0) {
    workspace_ = device_storage(recipe_->workspace_bytes());
  }
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  count_compilation("hpu_graph", static_cast<std::int64_t>(elapsed.count()));
}

void Capture::prepare() {
  require_ready("prepare()");
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  compile();
}

void Capture::launch(Launch&& given, bool asynchronous) {
  const c10::StreamId stream = runtime::current_stream_id();
  runtime::flush_recorded();
  const bool pipeline = runtime::is_pipeline_enabled() && !runtime::is_sync_debug_mode();
  engine::counters().launched++;
  if (pipeline && (asynchronous || runtime::is_queue_all() || !runtime::is_queue_idle(stream))) {
    runtime::enqueue(stream, std::make_unique<RecipeWork>(recipe_, std::move(given)));
    return;
  }
  runtime::drain(stream, /*surface=*/false);
  recipe_->run(given);
}

void Capture::replay(bool asynchronous) {
  require_ready("replay()");
  TORCH_CHECK(!has_interface_, "a graph with an interface is run with call(), not replay()");
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  compile();
  Launch given;
  given.addresses = addresses_;
  given.seeds = draw_seeds(*recipe_);
  given.workspace = workspace_;
  given.owners = owners_;
  launch(std::move(given), asynchronous);
}

bool Capture::fits(const Slot& slot, const at::Tensor& tensor) {
  const engine::Result& metadata = slot.metadata;
  return tensor.defined() && kernels::is_device_tensor(tensor) && tensor.layout() == c10::kStrided &&
         tensor.scalar_type() == metadata.dtype && tensor.sizes() == metadata.sizes &&
         tensor.strides() == metadata.strides && tensor.is_conj() == metadata.conj &&
         tensor.is_neg() == metadata.neg && (slot.unique || tensor.storage_offset() == metadata.offset);
}

// The reason that these inputs cannot replace the captured ones; empty if they can.
std::string Capture::refusal(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) {
    return "it was captured with " + std::to_string(inputs_.size()) + " inputs and got " +
           std::to_string(inputs.size());
  }
  std::unordered_map<const c10::StorageImpl*, std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    if (!fits(inputs_[i], inputs[i])) {
      return "input " + std::to_string(i) + " differs in size, stride, dtype or device";
    }
    const c10::StorageImpl* storage = storage_of(inputs[i]);
    const bool memory = storage->data_ptr().get() != nullptr;
    if (memory && first.emplace(storage, i).first->second != inputs_[i].first) {
      return "input " + std::to_string(i) + " shares memory with other inputs than it did";
    }
    if (static_.count(storage) != 0) {
      return "input " + std::to_string(i) + " is memory that the graph uses itself";
    }
    // Calls may look at the input through other views of the captured memory than its own.
    const std::int64_t shift = (inputs[i].storage_offset() - inputs_[i].metadata.offset) *
                               static_cast<std::int64_t>(inputs[i].itemsize());
    if (shift + static_cast<std::int64_t>(inputs_[i].begin) < 0 ||
        shift + static_cast<std::int64_t>(inputs_[i].end) > static_cast<std::int64_t>(storage->nbytes())) {
      return "input " + std::to_string(i) + " lies too close to the edge of its memory";
    }
  }
  for (const Slot& slot : outputs_) {
    if (slot.input >= 0) {
      const auto input = static_cast<std::size_t>(slot.input);
      const std::int64_t shift = (inputs[input].storage_offset() - inputs_[input].metadata.offset) *
                                 static_cast<std::int64_t>(inputs[input].itemsize());
      if (shift % static_cast<std::int64_t>(c10::scalarTypeToTypeMeta(slot.metadata.dtype).itemsize()) != 0) {
        return "input " + std::to_string(input) +
               " does not begin at an address that suits a result of another dtype";
      }
    }
  }
  return "";
}

bool Capture::accepts(const std::vector<at::Tensor>& inputs) const {
  return state_ == State::Ready && has_interface_ && refusal(inputs).empty();
}

at::Tensor Capture::output_tensor(const Slot& slot,
                                  const std::vector<at::Tensor>& inputs,
                                  const std::vector<c10::Storage>& fresh) const {
  if (slot.kept.defined()) {
    return slot.kept.detach();
  }
  if (slot.input >= 0) {
    const auto input = static_cast<std::size_t>(slot.input);
    const std::int64_t shift = (inputs[input].storage_offset() - inputs_[input].metadata.offset) *
                               static_cast<std::int64_t>(inputs[input].itemsize());
    const auto itemsize =
        static_cast<std::int64_t>(c10::scalarTypeToTypeMeta(slot.metadata.dtype).itemsize());
    return make_tensor(inputs[input].storage(), slot.metadata, slot.metadata.offset + shift / itemsize);
  }
  return make_tensor(fresh[static_cast<std::size_t>(slot.buffer)], slot.metadata, slot.metadata.offset);
}

std::vector<at::Tensor> Capture::call(const std::vector<at::Tensor>& inputs, bool asynchronous) {
  require_ready("call()");
  TORCH_CHECK(has_interface_, "call() needs set_interface() first");
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const std::string reason = refusal(inputs);
  TORCH_CHECK(reason.empty(), "the graph cannot take these inputs: ", reason, "; capture a graph for them");
  compile();
  Launch given;
  given.addresses = addresses_;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const int buffer = inputs_[i].buffer;
    if (buffer >= 0 && inputs_[i].first == i) {
      memory::touch(storage_of(inputs[i]));
      const void* data = storage_of(inputs[i])->data_ptr().get();
      const std::int64_t shift = (inputs[i].storage_offset() - inputs_[i].metadata.offset) *
                                 static_cast<std::int64_t>(inputs[i].itemsize());
      given.addresses[static_cast<std::size_t>(buffer)] =
          static_cast<char*>(memory::arena().to_host(const_cast<void*>(data))) + shift;
    }
  }
  std::vector<c10::Storage> fresh(given.addresses.size());
  for (const Slot& slot : outputs_) {
    const auto buffer = static_cast<std::size_t>(slot.buffer);
    if (slot.input < 0 && !slot.kept.defined() && !fresh[buffer]) {
      fresh[buffer] = device_storage(slot.bytes);
      memory::touch(fresh[buffer].unsafeGetStorageImpl());
      given.addresses[buffer] = memory::arena().to_host(fresh[buffer].mutable_data());
    }
  }
  given.seeds = draw_seeds(*recipe_);
  given.workspace = workspace_;
  given.owners = owners_;
  launch(std::move(given), asynchronous);
  std::vector<at::Tensor> results;
  for (const Slot& slot : outputs_) {
    results.push_back(output_tensor(slot, inputs, fresh));
  }
  return results;
}

const Graph& Capture::graph() const {
  return recipe_ != nullptr ? recipe_->graph() : recorded_;
}

bool Capture::uses(const at::Tensor& tensor) const {
  require_dense(tensor, "tensors");
  const void* data = storage_of(tensor)->data_ptr().get();
  const void* address = data == nullptr ? nullptr : memory::arena().to_host(const_cast<void*>(data));
  const Graph& graph = this->graph();
  for (const engine::Call& call : graph.calls) {
    for (const Use& use : uses_of(call)) {
      const int buffer = graph.buffer_of(*use.tensor);
      if (buffer >= 0 && address != nullptr) {
        const auto at = static_cast<std::size_t>(buffer);
        if ((recipe_ != nullptr ? addresses_[at] : graph.buffers[at].address) == address) {
          return true;
        }
      }
    }
  }
  return false;
}

std::vector<std::string> Capture::operators() const {
  std::vector<std::string> names;
  for (const engine::Call& call : graph().calls) {
    names.push_back(call.plan->name);
  }
  return names;
}

std::size_t Capture::memory_bytes() const {
  std::size_t bytes = recipe_ != nullptr ? recipe_->workspace_bytes() : 0;
  for (const Buffer& buffer : graph().buffers) {
    bytes += recipe_ == nullptr || buffer.role == Role::Output ? buffer.bytes : 0;
  }
  return bytes;
}

std::string Capture::dump(const std::string& format) const {
  TORCH_CHECK(format == "text" || format == "dot", "a graph is dumped as text or dot, not as ", format);
  return format == "text" ? to_text(graph()) : to_dot(graph());
}

void Capture::set_fused(const std::string& path, const std::vector<FusedArgument>& arguments) {
  require_ready("set_fused()");
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  compile();
  recipe_->set_fused(std::make_shared<FusedProgram>(path, arguments, recipe_->graph()));
}

Capture* current_capture() {
  return g_current;
}

}  // namespace hpu_reference::graph
