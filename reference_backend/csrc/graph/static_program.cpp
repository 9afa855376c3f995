#include "graph/static_program.h"

#include <ATen/EmptyTensor.h>
#include <dlfcn.h>

#include <algorithm>

#include "device_key.h"
#include "memory/allocator.h"

namespace hpu_reference::graph {

namespace {

std::size_t bytes_of(at::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
}

}  // namespace

int StaticProgram::add_value(Value value) {
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

int StaticProgram::add_input(at::ScalarType dtype, const Sizes& sizes, const Sizes& strides) {
  memories_.push_back(
      {Role::Input, bytes_of(dtype, sizes, strides), c10::elementSize(dtype), inputs_.size(), {}});
  inputs_.push_back(add_value({memories_.size() - 1, dtype, sizes, strides}));
  return inputs_.back();
}

int StaticProgram::add_constant(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  memories_.push_back({Role::Constant,
                       bytes_of(dtype, tensor.sizes(), tensor.strides()),
                       c10::elementSize(dtype),
                       0,
                       tensor.detach()});
  return add_value({memories_.size() - 1, dtype, tensor.sizes().vec(), tensor.strides().vec()});
}

int StaticProgram::add_buffer(at::ScalarType dtype,
                              const Sizes& sizes,
                              const Sizes& strides,
                              std::int64_t offset) {
  memories_.push_back({offset < 0 ? Role::Output : Role::Temporary,
                       bytes_of(dtype, sizes, strides),
                       c10::elementSize(dtype),
                       offset < 0 ? num_output_memories_++ : static_cast<std::size_t>(offset),
                       {}});
  return add_value({memories_.size() - 1, dtype, sizes, strides});
}

int StaticProgram::add_view(int base, const Sizes& sizes, const Sizes& strides, std::int64_t offset) {
  const Value& source = values_.at(static_cast<std::size_t>(base));
  const int first = source.base < 0 ? base : source.base;
  return add_value({source.memory, source.dtype, sizes, strides, source.offset + offset, first});
}

void StaticProgram::add_kernel(const std::string& library,
                               const std::vector<KernelArgument>& arguments,
                               const std::string& name) {
  TORCH_CHECK(arguments.size() <= kMaxArguments, "a kernel of ", library, " has too many arguments");
  // Never closed. The Python interpreter has loaded the library too and never closes it.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(handle != nullptr, "cannot load ", library, ": ", dlerror());
  Step step{Kind::Kernel};
  step.function = dlsym(handle, "kernel");
  TORCH_CHECK(step.function != nullptr, library, " has no function 'kernel'");
  step.arguments = arguments;
  step.name = name;
  steps_.push_back(std::move(step));
}

std::vector<int> StaticProgram::add_operator(const std::string& name,
                                             const std::string& overload,
                                             std::vector<OperatorArgument> arguments) {
  Step step{Kind::Operator};
  step.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  step.name = c10::toString(step.op->operator_name());
  step.values = std::move(arguments);
  for (const OperatorArgument& argument : step.values) {
    for (const int tensor : argument.tensors) {
      if (tensor >= 0) {
        values_.at(static_cast<std::size_t>(tensor)).as_tensor = true;
      }
    }
  }
  const c10::FunctionSchema& schema = step.op->schema();
  if (!schema.is_mutable()) {
    for (std::size_t i = 0; i < schema.returns().size(); i++) {
      memories_.push_back({Role::Result, 0, 0, 0, {}});
      results_.push_back(add_value({memories_.size() - 1, std::nullopt, {}, {}}));
      step.tensors.push_back(results_.back());
    }
  }
  const std::vector<int> results = step.tensors;
  choose_direct_call(step);
  steps_.push_back(std::move(step));
  return results;
}

// Selects a direct call for the operators that compiled code calls most, to skip the dispatcher.
void StaticProgram::choose_direct_call(Step& step) {
  const auto& name = step.op->operator_name();
  if (name.overload_name != "out") {
    return;
  }
  if (name.name == "aten::mm") {
    step.kind = Kind::Mm;
  } else if (name.name == "aten::bmm") {
    step.kind = Kind::Bmm;
  } else if (name.name == "aten::addmm") {
    step.kind = Kind::Addmm;
    step.beta = step.values[3].value.toScalar();
    step.alpha = step.values[4].value.toScalar();
  } else {
    return;
  }
  for (const OperatorArgument& argument : step.values) {
    if (argument.form == OperatorArgument::Form::Tensor) {
      step.tensors.push_back(argument.tensors[0]);
    }
  }
  step.adds_rows = step.kind == Kind::Addmm && adds_rows(step);
}

bool StaticProgram::adds_rows(const Step& step) const {
  const Value& row = values_[static_cast<std::size_t>(step.tensors.front())];
  const Value& out = values_[static_cast<std::size_t>(step.tensors.back())];
  if (!row.dtype || row.dtype != out.dtype || row.memory == out.memory || out.sizes.size() != 2 ||
      !step.beta.equal(1)) {
    return false;
  }
  const std::int64_t columns = out.sizes[1];
  return row.sizes == Sizes{columns} && row.strides == Sizes{1} && out.strides == Sizes{columns, 1};
}

void StaticProgram::add_layout_check(int tensor,
                                     const Sizes& sizes,
                                     const Sizes& strides,
                                     const std::string& name) {
  Step step{Kind::Layout};
  step.tensors = {tensor};
  step.sizes = sizes;
  step.strides = strides;
  step.name = name;
  steps_.push_back(std::move(step));
}

void StaticProgram::add_alignment_check(int tensor, std::int64_t alignment, const std::string& name) {
  Step step{Kind::Alignment};
  step.tensors = {tensor};
  step.sizes = {alignment};
  step.name = name;
  steps_.push_back(std::move(step));
}

void StaticProgram::add_release(int tensor) {
  Step step{Kind::Release};
  step.tensors = {tensor};
  steps_.push_back(std::move(step));
}

void StaticProgram::finish(const std::vector<int>& outputs, std::size_t workspace, bool writes) {
  outputs_ = outputs;
  name_ = "a compiled function of " + std::to_string(steps_.size()) + " steps";
  for (const int output : outputs) {
    const auto same = std::find(outputs.begin(), outputs.end(), output);
    first_.push_back(static_cast<std::size_t>(same - outputs.begin()));
  }
  workspace_ = workspace;
  writes_ = writes;
}

bool StaticProgram::fits(const Value& value, const at::Tensor& tensor) const {
  constexpr c10::DispatchKeySet refused({c10::DispatchKey::Conjugate,
                                         c10::DispatchKey::Negative,
                                         c10::DispatchKey::ZeroTensor,
                                         c10::DispatchKey::Python,
                                         c10::DispatchKey::FuncTorchGradWrapper,
                                         c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::Sparse,
                                         c10::DispatchKey::SparseCsr,
                                         c10::DispatchKey::Quantized,
                                         c10::DispatchKey::NestedTensor});
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = impl->key_set();
  if (!keys.has_backend(c10::BackendComponent::DEVICE_KEY_BIT) || keys.has_any(refused) ||
      !impl->has_storage()) {
    return false;
  }
  const c10::IntArrayRef sizes = impl->sizes();
  if (c10::typeMetaToScalarType(impl->dtype()) != *value.dtype || sizes != c10::IntArrayRef(value.sizes)) {
    return false;
  }
  const c10::IntArrayRef strides = impl->strides();
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (strides[i] != value.strides[i] && sizes[i] > 1) {
      return false;
    }
  }
  const Memory& memory = memories_[value.memory];
  const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  const std::size_t begin = static_cast<std::size_t>(impl->storage_offset()) * memory.itemsize;
  return memory.bytes == 0 || (storage->data() != nullptr && begin + memory.bytes <= storage->nbytes() &&
                               memory::arena().contains_device(storage->data()));
}

bool StaticProgram::fits(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size() || !memory::is_ready()) {
    return false;
  }
  for (std::size_t i = 0; i < inputs.size(); i++) {
    if (!fits(values_[static_cast<std::size_t>(inputs_[i])], inputs[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace hpu_reference::graph
