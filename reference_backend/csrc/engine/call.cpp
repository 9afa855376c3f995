#include "engine/call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <mutex>

#include "device_key.h"
#include "kernels/hardware_limits.h"
#include "kernels/host_call.h"
#include "kernels/host_tensors.h"
#include "kernels/operator_plan.h"
#include "kernels/trace_labels.h"
#include "kernels/upcast_kernel.h"
#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "memory/host_storage.h"
#include "runtime/generator.h"
#include "runtime/queue.h"
#include "runtime/trace.h"

namespace hpu_reference::engine {

namespace {

std::function<std::string()>& line_source() {
  static auto* value = new std::function<std::string()>();
  return *value;
}

thread_local std::string tls_line;

at::Tensor host_tensor(const at::Tensor& tensor, const ResolveStorage& resolve) {
  const c10::TensorImpl* device = tensor.unsafeGetTensorImpl();
  at::Tensor host =
      kernels::make_host_tensor(resolve(device->unsafe_storage().unsafeGetStorageImpl()), device);
  if (c10::GradMode::is_enabled() && tensor.requires_grad()) {
    host.unsafeGetTensorImpl()->set_requires_grad(true);
  }
  return host;
}

// Returns a CPU tensor with the values of the user's tensor, but without Python objects that may be attached
// to the user's tensor.
at::Tensor cpu_value(const at::Tensor& tensor, bool by_reference) {
  if (by_reference) {
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(tensor.storage()),
        tensor.key_set() & (kernels::kLazyBits | c10::DispatchKeySet(c10::DispatchKey::CPU)),
        tensor.dtype());
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    if (tensor.dim() == 0 && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      impl->set_wrapped_number(true);
    }
    return at::Tensor(std::move(impl));
  }
  if (tensor.dim() != 0 || tensor.is_conj() || tensor.is_neg()) {
    return tensor.detach().clone();
  }
  // Copy a 0-dim tensor, usually a literal of the program, without the dispatcher. A dispatched copy would
  // take longer than the rest of the recording.
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(c10::Storage::use_byte_size_t(),
                                                                tensor.itemsize(),
                                                                c10::GetAllocator(c10::DeviceType::CPU),
                                                                /*resizable=*/false),
                                                   c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                   tensor.dtype());
  impl->set_sizes_and_strides(c10::IntArrayRef(), c10::IntArrayRef());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  at::Tensor copy(std::move(impl));
  std::memcpy(copy.mutable_data_ptr(), tensor.const_data_ptr(), tensor.itemsize());
  return copy;
}

// Converts the arguments of a call: device tensors become CPU tensors over host storages. A tensor object
// that appears twice is converted once.
class HostForm {
 public:
  HostForm(const ResolveStorage& resolve, bool by_reference)
      : resolve_(resolve), by_reference_(by_reference) {
  }

  c10::IValue operator()(const c10::IValue& value) {
    if (value.isTensor()) {
      return tensor(value.toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> result;
      for (const c10::IValue& item : value.toListRef()) {
        result.push_back(tensor(item.toTensor()));
      }
      return result;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> result;
      for (const c10::IValue& item : value.toListRef()) {
        result.push_back(item.isNone() ? std::nullopt : std::make_optional(tensor(item.toTensor())));
      }
      return result;
    }
    if (value.isDevice() && value.toDevice().type() == c10::DeviceType::DEVICE_KEY) {
      return c10::Device(c10::DeviceType::CPU);
    }
    if (value.isGenerator()) {
      return c10::IValue();
    }
    return value;
  }

 private:
  at::Tensor tensor(const at::Tensor& argument_value) {
    if (!argument_value.defined()) {
      return argument_value;
    }
    for (const auto& [device, host] : done_) {
      if (device == argument_value.unsafeGetTensorImpl()) {
        return host;
      }
    }
    at::Tensor host = kernels::is_device_tensor(argument_value) ? host_tensor(argument_value, resolve_)
                                                                : cpu_value(argument_value, by_reference_);
    done_.emplace_back(argument_value.unsafeGetTensorImpl(), host);
    return host;
  }

  const ResolveStorage& resolve_;
  bool by_reference_;
  c10::SmallVector<std::pair<const c10::TensorImpl*, at::Tensor>, 6> done_;
};

void check_result(const Call& call, std::size_t index, const at::Tensor& result_tensor) {
  const Result& expected = call.output_metadata->results[index];
  if (expected.kind == Result::Kind::Undefined) {
    return;
  }
  const bool same = result_tensor.defined() && result_tensor.scalar_type() == expected.dtype &&
                    result_tensor.sizes() == expected.sizes &&
                    (result_tensor.numel() == 0 || result_tensor.strides() == expected.strides) &&
                    result_tensor.storage_offset() == expected.offset &&
                    result_tensor.is_conj() == expected.conj && result_tensor.is_neg() == expected.neg;
  if (C10_UNLIKELY(!same)) {
    remove_output_metadata(call.output_metadata->id);
    TORCH_CHECK(
        false,
        call.plan->name,
        " returned a tensor of size ",
        result_tensor.defined() ? result_tensor.sizes() : at::IntArrayRef(),
        " although the same call returned size ",
        expected.sizes,
        " before, so its output metadata cannot be predicted; set PT_HPU_EAGER_PIPELINE_ENABLE=0 and report "
        "the operator");
  }
  if (expected.kind == Result::Kind::New) {
    c10::StorageImpl* into = call.new_storages[static_cast<std::size_t>(expected.source)].get();
    const c10::StorageImpl* from =
        result_tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (C10_UNLIKELY(from->data() != into->data())) {
      std::memcpy(into->mutable_data(), from->data(), std::min(from->nbytes(), into->nbytes()));
    }
  }
}

}  // namespace

HostStorage make_host_storage(void* host, std::size_t bytes, bool resizable) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                               bytes,
                                               c10::DataPtr(host, c10::Device(c10::DeviceType::CPU)),
                                               c10::GetAllocator(c10::DeviceType::CPU),
                                               resizable);
}

void Call::run(std::uint64_t with_seed, const c10::IValue* with_lifted) const {
  const c10::AutoGradMode mode(gradients);
  thread_local torch::jit::Stack stack;
  torch::jit::Stack values;
  std::swap(values, stack);  // reuses the capacity of the thread's stack; a nested run gets an empty stack
  values.assign(arguments.begin(), arguments.end());
  for (std::size_t i = 0; with_lifted != nullptr && i < lifted.size(); i++) {
    values[static_cast<std::size_t>(lifted[i])] = with_lifted[i];
  }
  if (plan->generator >= 0) {
    values[static_cast<std::size_t>(plan->generator)] = runtime::seeded_cpu_generator(with_seed);
  }
  {
    const memory::OutputPlacementScope scope(output_placements);
    runtime::TraceSpan span(plan->copies ? runtime::TraceKind::Copy : runtime::TraceKind::Kernel,
                            plan->copies ? kernels::copy_label(reads_device, writes_device) : plan->name);
    if (span.is_active()) {
      span.add_bytes(kernels::bytes_of(values.data(), values.size()));
    }
    kernels::run_with_upcast(*plan, op, key, &values);
    if (span.is_active() && plan->makes_results) {
      span.add_bytes(kernels::bytes_of(values.data(), values.size()));
    }
  }
  plan->executed.fetch_add(1, std::memory_order_relaxed);
  if (C10_UNLIKELY(kernels::has_hardware_limits())) {
    kernels::round_results_to_hardware(*plan, arguments, values.data() + values.size() - plan->returns);
  }
  std::size_t index = 0;
  for (std::size_t i = values.size() - plan->returns; i < values.size(); i++) {
    if (values[i].isTensor()) {
      check_result(*this, index++, values[i].toTensor());
    } else if (values[i].isTensorList()) {
      for (const c10::IValue& item : values[i].toListRef()) {
        check_result(*this, index++, item.toTensor());
      }
    }
  }
  values.clear();
  std::swap(values, stack);
}

void Call::run() const {
  const KernelGuard guard;
  run(seed, nullptr);
}

// A thread that waits may run queued work. The dispatch modes that the thread has entered must not apply to
// this work.
KernelGuard::KernelGuard()
    : keys_(c10::default_included_set,
            c10::default_excluded_set | c10::autograd_dispatch_keyset |
                c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) | c10::autocast_dispatch_keyset) {
}

std::string Call::name() const {
  return line.empty() ? plan->name : plan->name + " (" + line + ")";
}

void set_new_storages(Call& call, std::vector<HostStorage>&& storages) {
  call.new_storages = std::move(storages);
  call.output_placements.clear();
  for (std::size_t i = 0; i < call.new_storages.size(); i++) {
    const NewStorage& storage = call.output_metadata->storages[i];
    if (storage.position >= 0) {
      call.output_placements.push_back({storage.position, storage.bytes, call.new_storages[i].get()});
    }
  }
}

c10::IValue stored_value(const c10::IValue& value) {
  return value.isTensor() ? c10::IValue(cpu_value(value.toTensor(), /*by_reference=*/false)) : value;
}

Call make_call(const kernels::OperatorPlan& plan,
               const c10::OperatorHandle& op,
               c10::DispatchKeySet key,
               const c10::IValue* arguments,
               const CallArguments& call_arguments,
               OutputMetadataPtr output_metadata,
               const ResolveStorage& resolve,
               bool by_reference) {
  Call call(plan, op, key);
  call.output_metadata = std::move(output_metadata);
  call.gradients = c10::GradMode::is_enabled();
  call.arguments.reserve(plan.arguments);
  HostForm host(resolve, by_reference);
  for (std::size_t i = 0; i < plan.arguments; i++) {
    call.arguments.push_back(host(arguments[i]));
  }
  call.lifted.assign(call_arguments.lifted().begin(), call_arguments.lifted().end());
  if (plan.generator >= 0) {
    const c10::IValue& argument_value = arguments[static_cast<std::size_t>(plan.generator)];
    if (argument_value.isGenerator()) {
      call.generator = argument_value.toGenerator();
    }
  }
  call.line = tls_line;
  return call;
}

Call make_host_copy(const kernels::OperatorPlan& plan,
                    const at::Tensor& self,
                    const at::Tensor& source,
                    const ResolveStorage& resolve) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  static const OutputMetadataPtr output_metadata = [] {
    OutputMetadata result;
    result.results.emplace_back();  // the result is the argument: nothing to check
    result.lengths.push_back(-1);
    return std::make_shared<const OutputMetadata>(std::move(result));
  }();
  const std::vector<c10::IValue> arguments{self, source, false};
  const CallArguments call_arguments(plan, arguments.data());
  Call call = make_call(plan,
                        op,
                        c10::DispatchKeySet(c10::DispatchKey::CPU),
                        arguments.data(),
                        call_arguments,
                        output_metadata,
                        resolve,
                        /*by_reference=*/true);
  call.lifted.clear();
  call.writes_device = kernels::is_device_tensor(self);
  call.reads_device = kernels::is_device_tensor(source);
  return call;
}

std::vector<c10::Storage> allocate_results(const OutputMetadata& output_metadata) {
  std::vector<c10::Storage> storages;
  storages.reserve(output_metadata.storages.size());
  for (const NewStorage& storage : output_metadata.storages) {
    storages.emplace_back(c10::Storage::use_byte_size_t(),
                          storage.bytes,
                          memory::allocate_device(storage.bytes),
                          memory::device_allocator(),
                          /*resizable=*/true);
  }
  return storages;
}

void push_results(const OutputMetadata& output_metadata,
                  const CallArguments& arguments,
                  std::size_t argument_count,
                  const std::vector<c10::Storage>& storages,
                  torch::jit::Stack* stack) {
  c10::SmallVector<c10::IValue, 4> values;
  std::size_t index = 0;
  const auto next = [&]() -> at::Tensor {
    const Result& result = output_metadata.results[index++];
    if (result.kind == Result::Kind::Undefined) {
      return {};
    }
    if (result.kind == Result::Kind::Argument) {
      return *arguments.tensors()[static_cast<std::size_t>(result.source)].tensor;
    }
    const c10::Storage& storage =
        result.kind == Result::Kind::New
            ? storages[static_cast<std::size_t>(result.source)]
            : arguments.tensors()[static_cast<std::size_t>(result.source)].tensor->storage();
    c10::DispatchKeySet keys(c10::DispatchKey::DEVICE_KEY);
    if (result.conj) {
      keys = keys.add(c10::DispatchKey::Conjugate);
    }
    if (result.neg) {
      keys = keys.add(c10::DispatchKey::Negative);
    }
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(storage), keys, c10::scalarTypeToTypeMeta(result.dtype));
    impl->set_sizes_and_strides(result.sizes, result.strides, result.offset);
    return at::Tensor(std::move(impl));
  };
  for (const int length : output_metadata.lengths) {
    if (length < 0) {
      values.emplace_back(next());
    } else {
      c10::List<at::Tensor> list;
      for (int i = 0; i < length; i++) {
        list.push_back(next());
      }
      values.emplace_back(std::move(list));
    }
  }
  torch::jit::drop(*stack, argument_count);
  for (c10::IValue& value : values) {
    stack->push_back(std::move(value));
  }
}

std::vector<std::string> written_metadata(const CallArguments& arguments) {
  std::vector<std::string> result;
  for (const auto& argument : arguments.tensors()) {
    if (!argument.written || !argument.device) {
      continue;
    }
    const c10::TensorImpl* impl = argument.tensor->unsafeGetTensorImpl();
    std::string text;
    const auto put = [&](const auto& value) {
      text.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    for (const auto size : impl->sizes()) {
      put(size);
    }
    for (const auto stride : impl->strides()) {
      put(stride);
    }
    put(impl->storage_offset());
    put(impl->unsafe_storage().unsafeGetStorageImpl()->data_ptr().get());
    put(impl->unsafe_storage().nbytes());
    put(static_cast<char>(impl->is_conj() | impl->is_neg() << 1));
    result.push_back(std::move(text));
  }
  return result;
}

std::vector<at::Tensor> flattened_results(const kernels::OperatorPlan& plan, const torch::jit::Stack& stack) {
  std::vector<at::Tensor> result;
  for (std::size_t i = stack.size() - plan.returns; i < stack.size(); i++) {
    if (stack[i].isTensor()) {
      result.push_back(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      for (const c10::IValue& item : stack[i].toListRef()) {
        result.push_back(item.toTensor());
      }
    }
  }
  return result;
}

namespace {

// Returns the out= arguments that were empty before the call and that the call has resized. Returns an empty
// list if the call has changed any other written argument.
std::vector<ResizedArgument> resized_arguments_of(const kernels::OperatorPlan& plan,
                                                  const CallArguments& arguments,
                                                  const std::vector<std::string>& before) {
  std::vector<ResizedArgument> result;
  if (!plan.writes_out_only) {
    return result;
  }
  const std::vector<std::string> after = written_metadata(arguments);
  std::size_t written = 0;
  for (std::size_t i = 0; i < arguments.tensors().size(); i++) {
    const auto& argument = arguments.tensors()[i];
    if (!argument.written || !argument.device) {
      continue;
    }
    const std::size_t at = written++;
    if (after[at] == before[at]) {
      continue;
    }
    if (!argument.was_empty || argument.tensor->storage_offset() != 0 ||
        argument.storage != argument.tensor->storage().unsafeGetStorageImpl()) {
      return {};
    }
    for (const auto& other_argument : arguments.tensors()) {
      if (other_argument.tensor != argument.tensor && other_argument.device &&
          other_argument.storage == argument.storage) {
        return {};  // a second run would read data that the first run wrote
      }
    }
    result.push_back(
        {i, c10::DimVector(argument.tensor->sizes()), c10::DimVector(argument.tensor->strides())});
  }
  return result;
}

}  // namespace

void resize_out_arguments(const OutputMetadata& output_metadata, const CallArguments& arguments) {
  for (const ResizedArgument& resized : output_metadata.resized_arguments) {
    const at::Tensor& tensor = *arguments.tensors()[resized.argument].tensor;
    c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    const std::size_t bytes =
        at::detail::computeStorageNbytes(resized.sizes, resized.strides, impl->itemsize());
    if (bytes > storage->nbytes()) {
      memory::resize_storage(storage, bytes);
    }
    impl->set_sizes_and_strides(resized.sizes, resized.strides, 0);
  }
}

OutputMetadata output_metadata_of(const kernels::OperatorPlan& plan,
                                  const CallArguments& arguments,
                                  const std::vector<std::string>& metadata,
                                  const torch::jit::Stack& stack,
                                  const memory::AllocationLog& log) {
  OutputMetadata output_metadata;
  const auto refuse = [&](const char* reason) {
    output_metadata.deferrable = false;
    output_metadata.reason = reason;
  };
  if (written_metadata(arguments) != metadata) {
    refuse("the operator changes the size or the memory of an argument");
    output_metadata.resized_arguments = resized_arguments_of(plan, arguments, metadata);
  }
  if (arguments.depends_on_data()) {
    refuse("the size of its result depends on the data");
  }
  for (std::size_t i = stack.size() - plan.returns; i < stack.size(); i++) {
    if (stack[i].isTensor()) {
      output_metadata.lengths.push_back(-1);
    } else if (stack[i].isTensorList()) {
      output_metadata.lengths.push_back(static_cast<int>(stack[i].toListRef().size()));
    } else {
      refuse("the operator returns a value to the host");
      return output_metadata;
    }
  }
  std::vector<const c10::StorageImpl*> storages;
  for (const at::Tensor& result_tensor : flattened_results(plan, stack)) {
    Result result;
    if (!result_tensor.defined()) {
      output_metadata.results.push_back(result);
      continue;
    }
    c10::TensorImpl* impl = result_tensor.unsafeGetTensorImpl();
    if (!kernels::is_device_tensor(result_tensor) || !impl->has_storage() ||
        impl->layout() != c10::kStrided || !is_strided_only(result_tensor)) {
      refuse("the result is not a dense tensor of the device");
      return output_metadata;
    }
    const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    result.kind = Result::Kind::New;
    for (std::size_t i = 0; i < arguments.tensors().size(); i++) {
      const auto& argument = arguments.tensors()[i];
      if (!argument.device) {
        continue;
      }
      if (argument.tensor->is_same(result_tensor)) {
        result.kind = Result::Kind::Argument;
        result.source = static_cast<int>(i);
        break;
      }
      if (argument.tensor->storage().unsafeGetStorageImpl() == storage) {
        result.kind = Result::Kind::View;
        result.source = static_cast<int>(i);
      }
    }
    if (result.kind == Result::Kind::New) {
      const auto storage_position = std::find(storages.begin(), storages.end(), storage);
      result.source = static_cast<int>(storage_position - storages.begin());
      if (storage_position == storages.end()) {
        storages.push_back(storage);
        const void* data = storage->data_ptr().get();
        output_metadata.storages.push_back(
            {storage->nbytes(), data == nullptr ? -1 : log.position(memory::arena().to_host(data))});
      }
    }
    result.dtype = result_tensor.scalar_type();
    result.sizes = result_tensor.sizes();
    result.strides = result_tensor.strides();
    result.offset = result_tensor.storage_offset();
    result.conj = result_tensor.is_conj();
    result.neg = result_tensor.is_neg();
    output_metadata.results.push_back(std::move(result));
  }
  return output_metadata;
}

void record_python_line() {
  if (const auto& source = line_source()) {
    tls_line = source();
  }
}

bool is_recording_python_lines() {
  return static_cast<bool>(line_source());
}

void set_python_line_source(std::function<std::string()> source) {
  line_source() = std::move(source);
}

}  // namespace hpu_reference::engine
