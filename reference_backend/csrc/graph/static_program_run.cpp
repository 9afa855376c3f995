#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <array>
#include <cstring>

#include "device_key.h"
#include "graph/static_program.h"
#include "memory/access_set.h"
#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "runtime/capture_scope.h"
#include "runtime/queue.h"
#include "runtime/trace.h"

namespace hpu_reference::graph {

namespace {

constexpr const char* kName = "call_on_host";  // name of this work in reports of the race check

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

c10::DataPtr make_borrowed_pointer(void* address) {
  return {address, c10::Device(c10::DeviceType::CPU)};
}

at::Tensor make_tensor(c10::Storage storage,
                       c10::DispatchKey key,
                       at::ScalarType dtype,
                       c10::IntArrayRef sizes,
                       c10::IntArrayRef strides,
                       std::int64_t offset) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

c10::Storage make_storage(std::size_t bytes, c10::DataPtr pointer, c10::Allocator* allocator) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(pointer), allocator, allocator != nullptr};
}

// Kernels take addresses and 64-bit integers, which have the same calling convention.
using Invoke = void (*)(void* function, void* const* arguments);

template <std::size_t>
using Argument = void*;

template <std::size_t... I>
void invoke(void* function, void* const* arguments, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(Argument<I>...)>(function)(arguments[I]...);
}

template <std::size_t... N>
constexpr std::array<Invoke, sizeof...(N)> invokers(std::index_sequence<N...>) {
  return {[](void* function, void* const* arguments) {
    invoke(function, arguments, std::make_index_sequence<N>());
  }...};
}

constexpr auto kInvokers = invokers(std::make_index_sequence<StaticProgram::kMaxArguments + 1>());

}  // namespace

// The arguments of one call: tensors over memory that is set when the call begins.
struct StaticProgram::Frame {
  std::vector<at::Tensor> tensors;     // by tensor number; result tensors only while they are alive
  std::vector<c10::Storage> storages;  // by memory, for memories with tensors
  std::vector<char*> addresses;        // by memory
  std::vector<std::size_t> itemsizes;  // by memory
};

// Scope in which one call has a frame for itself.
class StaticProgram::Lease {
 public:
  explicit Lease(StaticProgram& program) : program_(program) {
    {
      const std::lock_guard lock(program_.mutex_);
      if (!program_.frames_.empty()) {
        frame_ = std::move(program_.frames_.back());
        program_.frames_.pop_back();
      }
    }
    if (frame_ == nullptr) {
      frame_ = program_.make_frame();
    }
  }
  ~Lease() {
    program_.drop_results(*frame_);
    const std::lock_guard lock(program_.mutex_);
    program_.frames_.push_back(std::move(frame_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Frame& operator*() {
    return *frame_;
  }

 private:
  StaticProgram& program_;
  std::unique_ptr<Frame> frame_;
};

StaticProgram::StaticProgram() = default;
StaticProgram::~StaticProgram() = default;

std::unique_ptr<StaticProgram::Frame> StaticProgram::make_frame() const {
  const c10::InferenceMode normal(false);  // calls inside and outside inference mode use the tensors
  auto frame = std::make_unique<Frame>();
  frame->tensors.resize(values_.size());
  frame->storages.resize(memories_.size());
  frame->addresses.resize(memories_.size());
  for (const Memory& memory : memories_) {
    frame->itemsizes.push_back(memory.itemsize);
  }
  for (std::size_t i = 0; i < values_.size(); i++) {
    const Value& value = values_[i];
    const Memory& memory = memories_[value.memory];
    if (memory.role == Role::Constant) {
      frame->addresses[value.memory] = static_cast<char*>(memory.constant.data_ptr());
    }
    if (memory.role == Role::Result || !value.as_tensor) {
      continue;
    }
    c10::Storage& storage = frame->storages[value.memory];
    if (!storage) {
      storage = make_storage(memory.bytes, make_borrowed_pointer(frame->addresses[value.memory]), nullptr);
    }
    frame->tensors[i] =
        make_tensor(storage, c10::DispatchKey::CPU, *value.dtype, value.sizes, value.strides, value.offset);
  }
  return frame;
}

void StaticProgram::drop_results(Frame& frame) const {
  for (const int result : results_) {
    frame.tensors[static_cast<std::size_t>(result)] = at::Tensor();
  }
}

at::Tensor StaticProgram::tensor_of(const Frame& frame, int number) const {
  const auto position = static_cast<std::size_t>(number);
  const Value& value = values_[position];
  if (value.base < 0 || memories_[value.memory].role != Role::Result) {
    return frame.tensors[position];
  }
  const at::Tensor& base = frame.tensors[static_cast<std::size_t>(value.base)];
  return make_tensor(base.storage(),
                     c10::DispatchKey::CPU,
                     base.scalar_type(),
                     value.sizes,
                     value.strides,
                     base.storage_offset() + value.offset);
}

void StaticProgram::call_kernel(const Step& step, const Frame& frame) const {
  std::array<void*, kMaxArguments> arguments;
  for (std::size_t i = 0; i < step.arguments.size(); i++) {
    const auto [tensor, number] = step.arguments[i];
    if (tensor < 0) {
      arguments[i] = reinterpret_cast<void*>(static_cast<std::intptr_t>(number));
    } else {
      const Value& value = values_[static_cast<std::size_t>(tensor)];
      arguments[i] = frame.addresses[value.memory] +
                     value.offset * static_cast<std::int64_t>(frame.itemsizes[value.memory]);
    }
  }
  kInvokers[step.arguments.size()](step.function, arguments.data());
}

void StaticProgram::call_addmm(const Step& step, const Frame& frame) const {
  at::Tensor out = tensor_of(frame, step.tensors[3]);
  if (step.adds_rows) {
    // Copy the row to each row of the result. This replaces an expanded tensor and a call that copies it.
    const Value& row = values_[static_cast<std::size_t>(step.tensors[0])];
    const std::size_t itemsize = frame.itemsizes[row.memory];
    const char* source = frame.addresses[row.memory] + row.offset * static_cast<std::int64_t>(itemsize);
    char* target = static_cast<char*>(out.data_ptr());
    const std::size_t bytes = static_cast<std::size_t>(out.size(1)) * itemsize;
    for (std::int64_t i = 0; bytes > 0 && i < out.size(0); i++, target += bytes) {
      std::memcpy(target, source, bytes);
    }
  }
  at::cpu::addmm_out(out,
                     step.adds_rows ? out : tensor_of(frame, step.tensors[0]),
                     tensor_of(frame, step.tensors[1]),
                     tensor_of(frame, step.tensors[2]),
                     step.beta,
                     step.alpha);
}

void StaticProgram::call_operator(const Step& step, Frame& frame) const {
  torch::jit::Stack stack;
  stack.reserve(step.values.size());
  for (const OperatorArgument& argument : step.values) {
    if (argument.form == OperatorArgument::Form::Value) {
      stack.push_back(argument.value);
    } else if (argument.form == OperatorArgument::Form::Tensor) {
      stack.emplace_back(tensor_of(frame, argument.tensors[0]));
    } else if (argument.form == OperatorArgument::Form::Tensors) {
      c10::List<at::Tensor> list;
      for (const int tensor : argument.tensors) {
        list.push_back(tensor_of(frame, tensor));
      }
      stack.emplace_back(std::move(list));
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (const int tensor : argument.tensors) {
        list.push_back(tensor < 0 ? std::nullopt : std::make_optional(tensor_of(frame, tensor)));
      }
      stack.emplace_back(std::move(list));
    }
  }
  step.op->callBoxed(stack);
  for (std::size_t i = 0; i < step.tensors.size(); i++) {
    const auto number = static_cast<std::size_t>(step.tensors[i]);
    at::Tensor result = stack[i].toTensor();
    stack[i] = c10::IValue();
    if (result.defined()) {
      frame.itemsizes[values_[number].memory] = result.itemsize();
      frame.addresses[values_[number].memory] = static_cast<char*>(result.data_ptr());
    }
    frame.tensors[number] = std::move(result);
  }
}

void StaticProgram::check_layout(const Step& step, const Frame& frame) const {
  const at::Tensor& tensor = frame.tensors[static_cast<std::size_t>(step.tensors[0])];
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  bool same = sizes == c10::IntArrayRef(step.sizes);
  for (std::size_t i = 0; same && i < sizes.size(); i++) {
    same = sizes[i] < 2 || tensor.numel() == 0 || strides[i] == step.strides[i];
  }
  if (!same) {
    throw UnexpectedLayout(c10::str("a result of ",
                                    step.name,
                                    " has sizes ",
                                    sizes,
                                    " and strides ",
                                    strides,
                                    ", expected ",
                                    c10::IntArrayRef(step.sizes),
                                    " and ",
                                    c10::IntArrayRef(step.strides)));
  }
}

void StaticProgram::check_alignment(const Step& step, const Frame& frame) const {
  const at::Tensor& tensor = frame.tensors[static_cast<std::size_t>(step.tensors[0])];
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  if (address % static_cast<std::uintptr_t>(step.sizes[0]) != 0) {
    throw UnexpectedLayout(
        c10::str("a result of ", step.name, " is not aligned to ", step.sizes[0], " bytes"));
  }
}

void StaticProgram::run_steps(Frame& frame) const {
  for (const Step& step : steps_) {
    const bool computes =
        step.kind != Kind::Layout && step.kind != Kind::Alignment && step.kind != Kind::Release;
    const runtime::TraceSpan span(computes ? runtime::TraceKind::Kernel : runtime::TraceKind::None,
                                  step.name);
    switch (step.kind) {
      case Kind::Kernel:
        call_kernel(step, frame);
        break;
      case Kind::Mm: {
        at::Tensor out = tensor_of(frame, step.tensors[2]);
        at::cpu::mm_out(out, tensor_of(frame, step.tensors[0]), tensor_of(frame, step.tensors[1]));
        break;
      }
      case Kind::Bmm: {
        at::Tensor out = tensor_of(frame, step.tensors[2]);
        at::cpu::bmm_out(out, tensor_of(frame, step.tensors[0]), tensor_of(frame, step.tensors[1]));
        break;
      }
      case Kind::Addmm:
        call_addmm(step, frame);
        break;
      case Kind::Operator:
        call_operator(step, frame);
        break;
      case Kind::Layout:
        check_layout(step, frame);
        break;
      case Kind::Alignment:
        check_alignment(step, frame);
        break;
      case Kind::Release:
        frame.tensors[static_cast<std::size_t>(step.tensors[0])] = at::Tensor();
        break;
    }
  }
}

// Points the frame's tensors to the memory of this call. Returns the memory that this function allocates for
// the outputs.
std::vector<c10::Storage> StaticProgram::bind(Frame& frame,
                                              const std::vector<at::Tensor>& inputs,
                                              char* workspace) const {
  std::vector<c10::Storage> output_storages(num_output_memories_);
  for (std::size_t i = 0; i < memories_.size(); i++) {
    const Memory& memory = memories_[i];
    char* address = nullptr;
    if (memory.role == Role::Input) {
      const at::Tensor& input = inputs[memory.position];
      if (memory.bytes > 0) {
        address = memory::arena().to_host(storage_of(input)->data()) +
                  static_cast<std::size_t>(input.storage_offset()) * memory.itemsize;
      }
    } else if (memory.role == Role::Temporary) {
      address = workspace + memory.position;
    } else if (memory.role == Role::Output) {
      c10::Storage& storage = output_storages[memory.position];
      // The host writes this memory at once, so it must not be memory that queued work still reads.
      storage = make_storage(memory.bytes,
                             memory::allocate_device(memory.bytes, /*in_order=*/false),
                             memory::device_allocator());
      if (C10_UNLIKELY(runtime::is_work_pending())) {
        memory::wait_and_check_races(
            storage.unsafeGetStorageImpl(), /*written=*/true, /*throw_errors=*/false, kName);
      }
      if (memory.bytes > 0) {
        address = memory::arena().to_host(storage.data());
      }
    } else {
      continue;
    }
    frame.addresses[i] = address;
    if (frame.storages[i]) {
      frame.storages[i].unsafeGetStorageImpl()->set_data_ptr_noswap(make_borrowed_pointer(address));
    }
  }
  return output_storages;
}

std::optional<std::vector<at::Tensor>> StaticProgram::run(const std::vector<at::Tensor>& inputs) {
  // Do not run if a tool observes operators by callbacks, because the steps call no callbacks. A profile of
  // the device is an exception: it contains rows for the steps.
  if ((at::hasCallbacks() && !runtime::is_torch_profile_active()) || c10::impl::dispatch_mode_enabled() ||
      !fits(inputs) || (runtime::is_work_pending() && runtime::is_capturing())) {
    return std::nullopt;
  }
  kernels::HostCall call;
  if (C10_UNLIKELY(runtime::is_work_pending())) {
    for (const at::Tensor& input : inputs) {
      memory::wait_and_check_races(storage_of(input), writes_, /*throw_errors=*/false, kName);
    }
  }
  Lease lease(*this);
  // The HostCall redirects the CPU allocator, so the workspace is device memory.
  const c10::DataPtr workspace = memory::host_allocator()->allocate(workspace_);
  const auto output_storages = bind(*lease, inputs, static_cast<char*>(workspace.get()));
  {
    const runtime::TraceSpan span(runtime::TraceKind::Recipe, name_);
    run_steps(*lease);
  }
  runs_.fetch_add(1, std::memory_order_relaxed);
  return results(inputs, output_storages, *lease, call);
}

std::vector<at::Tensor> StaticProgram::results(const std::vector<at::Tensor>& inputs,
                                               const std::vector<c10::Storage>& output_storages,
                                               Frame& frame,
                                               kernels::HostCall& call) const {
  std::vector<at::Tensor> results(outputs_.size());
  for (std::size_t i = 0; i < outputs_.size(); i++) {
    if (outputs_[i] < 0 || first_[i] != i) {
      continue;
    }
    const Value& value = values_[static_cast<std::size_t>(outputs_[i])];
    const Memory& memory = memories_[value.memory];
    if (memory.role == Role::Result) {
      results[i] = tensor_of(frame, outputs_[i]);
      continue;
    }
    const bool is_input = memory.role == Role::Input;
    const at::Tensor* input = is_input ? &inputs[memory.position] : nullptr;
    results[i] = is_input && value.base < 0
                     ? *input
                     : make_tensor(is_input ? input->storage() : output_storages[memory.position],
                                   c10::DispatchKey::DEVICE_KEY,
                                   *value.dtype,
                                   value.sizes,
                                   value.strides,
                                   value.offset + (is_input ? input->storage_offset() : 0));
  }
  call.kernel_done();
  drop_results(frame);  // a result's memory becomes device memory only if no other reference to it exists
  for (std::size_t i = 0; i < outputs_.size(); i++) {
    results[i] = first_[i] != i ? results[first_[i]] : call.device(std::move(results[i]));
  }
  call.finish();
  return results;
}

}  // namespace hpu_reference::graph
