#include "dispatch/operator_plan.h"

#include <c10/util/StringUtil.h>

#include <unordered_set>

namespace hpu_reference::dispatch {

namespace {

// Arguments that by public contract may be CPU tensors of one or more dimensions next to device tensors:
// sources of copies, indices, the quantizer's example, and the metadata of nested tensors, which is on the
// CPU on every device.
bool may_be_on_the_host(const std::string& name, const std::string& argument) {
  static const std::unordered_set<std::string> pairs = {
      "aten::copy_ src",
      "aten::copy_sparse_to_sparse_ src",
      "aten::index.Tensor indices",
      "aten::index.Tensor_out indices",
      "aten::_index_put_impl_ indices",
      "aten::empty_quantized qtensor",
      "aten::_nested_view_from_buffer nested_size",
      "aten::_nested_view_from_buffer nested_strides",
      "aten::_nested_view_from_buffer offsets",
      "aten::_nested_from_padded cpu_nested_shape_example",
  };
  return pairs.count(name + " " + argument) != 0;
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
    cpu_allowed.push_back(may_be_on_the_host(name, argument.name()));
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
  dense_inputs = name == "aten::median.dim_values" || name == "aten::nanmedian.dim_values";
  grows_storage = name == "aten::resize_";
}

}  // namespace hpu_reference::dispatch
