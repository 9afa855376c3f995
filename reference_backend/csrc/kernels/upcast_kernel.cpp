#include "kernels/upcast_kernel.h"

#include <ATen/core/List.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

namespace hpu_reference::kernels {

namespace {

bool is_low_precision(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return false;
  }
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 || at::isFloat8Type(type);
}

template <class Function>
void for_each_tensor(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      function(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      if (tensor.has_value()) {
        function(*tensor);
      }
    }
  }
}

// Returns a copy of the value in which `change` has replaced each tensor.
template <class Function>
c10::IValue map_tensors(const c10::IValue& value, const Function& change) {
  if (value.isTensor()) {
    return change(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    for (const at::Tensor& tensor : value.toTensorList()) {
      result.push_back(change(tensor));
    }
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> result;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      result.push_back(tensor.has_value() ? std::make_optional(change(*tensor)) : std::nullopt);
    }
    return result;
  }
  return value;
}

// Float32 copies of the low-precision tensors among the arguments. A tensor that occurs several times has one
// copy.
class UpcastTensors {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!is_low_precision(tensor)) {
      return tensor;
    }
    at::Tensor& copy = copies_[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) {
      copy = tensor.to(at::kFloat);
    }
    return copy;
  }

 private:
  std::unordered_map<const c10::TensorImpl*, at::Tensor> copies_;
};

// Returns the only low-precision dtype among the arguments. Returns nothing if the arguments have two such
// dtypes, or other floating-point tensors. Python numbers are ignored.
std::optional<at::ScalarType> low_precision_dtype_of(const std::vector<c10::IValue>& arguments) {
  std::optional<at::ScalarType> low_dtype;
  bool mixed = false;
  for (const c10::IValue& value : arguments) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !(at::isFloatingType(tensor.scalar_type()) || tensor.is_complex()) ||
          tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
        return;
      }
      mixed |= !is_low_precision(tensor) || (low_dtype.has_value() && *low_dtype != tensor.scalar_type());
      low_dtype = tensor.scalar_type();
    });
  }
  return mixed ? std::nullopt : low_dtype;
}

// Returns the index of the argument that the operator returns as this result, or -1.
int written_argument(const c10::FunctionSchema& schema, std::size_t result) {
  const c10::AliasInfo* info = schema.returns()[result].alias_info();
  if (info == nullptr || !info->isWrite()) {
    return -1;
  }
  for (std::size_t i = 0; i < schema.arguments().size(); i++) {
    const c10::AliasInfo* argument_alias = schema.arguments()[i].alias_info();
    if (argument_alias != nullptr && argument_alias->beforeSets() == info->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// Returns true if the call specifies the dtype of its results.
bool names_dtype(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); i++) {
    const std::string& name = schema.arguments()[i].name();
    if ((name == "dtype" || name == "out_dtype") && !arguments[i].isNone()) {
      return true;
    }
  }
  return false;
}

void write_rounded(const c10::IValue& original, UpcastTensors& upcast) {
  for_each_tensor(original, [&](const at::Tensor& tensor) {
    if (!is_low_precision(tensor)) {
      return;
    }
    const at::Tensor computed = upcast.of(tensor);
    if (tensor.sizes() != computed.sizes()) {
      tensor.resize_(computed.sizes());
    }
    tensor.copy_(computed);
  });
}

// Returns true if an argument on the stack is, or contains, a tensor of 8-bit or 16-bit floats.
bool has_low_precision(const torch::jit::Stack& stack, std::size_t first) {
  bool low_dtype = false;
  for (std::size_t i = first; i < stack.size(); i++) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) { low_dtype |= is_low_precision(tensor); });
  }
  return low_dtype;
}

}  // namespace

void run_with_upcast(const OperatorPlan& plan,
                     const c10::OperatorHandle& op,
                     c10::DispatchKeySet key,
                     torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - plan.arguments;
  if (C10_UNLIKELY(plan.index_argument >= 0)) {
    c10::IValue& value = (*stack)[first + static_cast<std::size_t>(plan.index_argument)];
    if (value.toTensor().scalar_type() == at::kInt) {
      value = value.toTensor().to(at::kLong);
    }
  }
  if (!has_low_precision(*stack, first)) {
    op.redispatchBoxed(key, stack);
    return;
  }
  const std::vector<c10::IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  const std::optional<at::ScalarType> dtype = low_precision_dtype_of(arguments);
  // In float16, the CPU's multinomial divides by random numbers that can be rounded to zero. Then it selects
  // an index with weight zero, because 0 / 0 is NaN.
  const bool is_multinomial_in_half = dtype == at::kHalf && op.operator_name().name == "aten::multinomial";
  try {
    if (!is_multinomial_in_half) {
      op.redispatchBoxed(key, stack);
      return;
    }
  } catch (const c10::NotImplementedError& error) {
    const bool lacks_dtype =
        std::strstr(error.what_without_backtrace(), "\" not implemented for '") != nullptr;
    if (!dtype.has_value() || !lacks_dtype) {
      throw;
    }
  }
  UpcastTensors upcast;
  stack->resize(first);
  for (const c10::IValue& value : arguments) {
    stack->push_back(map_tensors(value, [&](const at::Tensor& tensor) { return upcast.of(tensor); }));
  }
  op.redispatchBoxed(key, stack);
  for (std::size_t i = 0; i < plan.arguments; i++) {
    if (plan.written[i]) {
      write_rounded(arguments[i], upcast);
    }
  }
  const bool names_output_dtype = names_dtype(op.schema(), arguments);
  for (std::size_t i = 0; i < plan.returns; i++) {
    c10::IValue& value = (*stack)[first + i];
    const int argument = written_argument(op.schema(), i);
    if (argument >= 0) {
      value = arguments[static_cast<std::size_t>(argument)];
    } else if (!names_output_dtype) {
      value = map_tensors(value, [&](const at::Tensor& tensor) {
        return tensor.defined() && tensor.scalar_type() == at::kFloat ? tensor.to(*dtype) : tensor;
      });
    }
  }
}

}  // namespace hpu_reference::kernels
