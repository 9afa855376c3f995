#include "dispatch/operator_plan.h"

#include <c10/util/StringUtil.h>

#include <unordered_set>

namespace hpu_reference::dispatch {

namespace {

// Operators whose public contract lets CPU tensors of one or more dimensions stand next to device tensors:
// copies, index tensors, and the metadata of nested tensors, which lives on the CPU on every device.
bool allows_cpu_tensors(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::copy_",
      "aten::copy_sparse_to_sparse_",
      "aten::index.Tensor",
      "aten::index.Tensor_out",
      "aten::_index_put_impl_",
      "aten::_nested_view_from_buffer",
      "aten::_nested_from_padded",
      "aten::_nested_tensor_from_mask",
      "aten::_nested_tensor_from_mask_left_aligned",
  };
  return names.count(name) != 0;
}

bool mentions(const c10::TypePtr& type, c10::TypeKind kind) {
  if (type->kind() == kind) {
    return true;
  }
  for (const auto& inner : type->containedTypes()) {
    if (mentions(inner, kind)) {
      return true;
    }
  }
  return false;
}

}  // namespace

OperatorPlan::OperatorPlan(const c10::FunctionSchema& schema)
    : name(c10::toString(schema.operator_name())),
      arguments(schema.arguments().size()),
      returns(schema.returns().size()) {
  for (std::size_t i = 0; i < arguments; i++) {
    const auto& argument = schema.arguments()[i];
    written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    if (mentions(argument.real_type(), c10::TypeKind::GeneratorType)) {
      generator = static_cast<int>(i);
    }
  }
  for (const auto& result : schema.returns()) {
    returns_tensors |= mentions(result.real_type(), c10::TypeKind::TensorType);
  }
  for (const bool write : written) {
    returns_tensors |= write;  // an out= tensor may be resized
  }
  cpu_tensors_allowed = allows_cpu_tensors(name);
  grows_storage = name == "aten::resize_";
}

}  // namespace hpu_reference::dispatch
