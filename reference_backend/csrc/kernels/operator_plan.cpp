#include "kernels/operator_plan.h"

#include <ATen/core/enum_tag.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <unordered_set>

namespace hpu_reference::kernels {

namespace {

// Returns true for arguments for which PyTorch accepts CPU tensors of one or more dimensions next to device
// tensors: sources of copies, indices, the quantizer's example, and the metadata of nested tensors, which is
// on the CPU on every device.
bool accepts_cpu_tensor(const std::string& name, const std::string& argument) {
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

bool contains_type_kind(const c10::TypePtr& type, c10::TypeKind kind) {
  if (type->kind() == kind) {
    return true;
  }
  for (const auto& inner : type->containedTypes()) {
    if (contains_type_kind(inner, kind)) {
      return true;
    }
  }
  return false;
}

// Returns true for arguments that the operator writes although the schema does not declare the write.
bool is_written_without_declaration(const std::string& name, const std::string& argument) {
  static const std::unordered_set<std::string> names = {"aten::native_batch_norm",
                                                        "aten::native_batch_norm.out",
                                                        "aten::batch_norm_update_stats",
                                                        "aten::batch_norm_update_stats.out",
                                                        "aten::batch_norm_gather_stats",
                                                        "aten::batch_norm_gather_stats.out",
                                                        "aten::batch_norm_gather_stats_with_counts",
                                                        "aten::batch_norm_gather_stats_with_counts.out"};
  return names.count(name) != 0 && (argument == "running_mean" || argument == "running_var");
}

// Returns true for arithmetic operators that accept any value as factor, bound or fill value. Other operators
// may reject some values (a negative bound, an infinite order). A call that an operator may reject must not
// be deferred.
bool accepts_any_value(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "add",        "sub",       "rsub",        "mul",        "div",         "true_divide",
      "multiply",   "subtract",  "divide",      "fill",       "full_like",   "eq",
      "ne",         "lt",        "le",          "gt",         "ge",          "clamp",
      "clamp_min",  "clamp_max", "addcmul",     "addcdiv",    "addmm",       "addmv",
      "addbmm",     "baddbmm",   "addr",        "lerp",       "pow",         "remainder",
      "fmod",       "threshold", "masked_fill", "index_fill", "index_add",   "where",
      "xlogy",      "copysign",  "maximum",     "minimum",    "float_power", "scatter",
      "leaky_relu", "hardtanh",  "celu",        "softplus",   "elu",         "addmm_activation"};
  std::string base_name = name.substr(name.find("::") + 2);
  const bool listwise = base_name.rfind("_foreach_", 0) == 0;
  base_name = listwise ? base_name.substr(9) : base_name;
  while (!base_name.empty() && base_name.back() == '_') {
    base_name.pop_back();
  }
  return names.count(base_name) != 0;
}

// Returns true for operators whose result size depends on the data although they do not have torch's tag.
bool sizes_depend_on_data(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::linalg_lstsq", "aten::_pack_padded_sequence", "aten::_ctc_loss", "aten::resize_"};
  return names.count(name) != 0;
}

OperatorPlan::Cost cost_of(const std::string& name) {
  static const std::unordered_set<std::string> products = {
      "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::addmm_", "aten::baddbmm_"};
  static const std::unordered_set<std::string> convolutions = {
      "aten::convolution", "aten::_convolution", "aten::convolution_backward"};
  return products.count(name) != 0       ? OperatorPlan::Cost::Product
         : convolutions.count(name) != 0 ? OperatorPlan::Cost::Convolution
                                         : OperatorPlan::Cost::Elements;
}

}  // namespace

void OperatorPlan::normalize_optional_tensors(c10::IValue& value) {
  if (!value.isList() || value.isOptionalTensorList() || value.isTensorList()) {
    return;
  }
  c10::List<std::optional<at::Tensor>> tensors;
  for (const c10::IValue& element : value.toListRef()) {
    tensors.push_back(element.toOptional<at::Tensor>());
  }
  value = std::move(tensors);
}

OperatorPlan::OperatorPlan(const c10::OperatorHandle& op)
    : name(c10::toString(op.operator_name())),
      arguments(op.schema().arguments().size()),
      returns(op.schema().returns().size()) {
  const c10::FunctionSchema& schema = op.schema();
  bool reads_tensor = false;
  for (std::size_t i = 0; i < arguments; i++) {
    const auto& argument = schema.arguments()[i];
    written.push_back((argument.alias_info() != nullptr && argument.alias_info()->isWrite()) ||
                      is_written_without_declaration(name, argument.name()));
    cpu_allowed.push_back(accepts_cpu_tensor(name, argument.name()));
    if (contains_type_kind(argument.real_type(), c10::TypeKind::GeneratorType)) {
      generator = static_cast<int>(i);
    }
    if (argument.name() == "index" && op.operator_name().name == "aten::take") {
      index_argument = static_cast<int>(i);
    }
    if (argument.real_type()->kind() == c10::TypeKind::ListType &&
        argument.real_type()->containedType(0)->kind() == c10::TypeKind::OptionalType &&
        contains_type_kind(argument.real_type(), c10::TypeKind::TensorType)) {
      optional_tensors = static_cast<int>(i);
    }
    if (argument.name() == "output_size" && name == "aten::repeat_interleave.Tensor") {
      size_argument = static_cast<int>(i);
    }
    reads_tensor |= !written.back() && contains_type_kind(argument.real_type(), c10::TypeKind::TensorType);
  }
  writes_out_only = std::find(written.begin(), written.end(), true) != written.end();
  for (std::size_t i = 0; i < arguments; i++) {
    writes_out_only &= !written[i] || schema.arguments()[i].kwarg_only();
  }
  lifts_tensor = reads_tensor && accepts_any_value(op.operator_name().name);
  for (const auto& argument : schema.arguments()) {
    const auto type = argument.type();
    // Lift only a Scalar. A `float` argument may be a scale factor, which determines sizes.
    lifts_scalar.push_back(lifts_tensor && contains_type_kind(type, c10::TypeKind::NumberType));
  }
  boolean_indices_depend = name.rfind("aten::index.Tensor", 0) == 0;
  data_dependent = !boolean_indices_depend &&
                   (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
                    sizes_depend_on_data(op.operator_name().name));
  cost = cost_of(op.operator_name().name);
  for (const auto& result : schema.returns()) {
    returns_tensors |= contains_type_kind(result.real_type(), c10::TypeKind::TensorType);
  }
  for (const bool write : written) {
    returns_tensors |= write;  // an out= tensor may be resized
  }
  needs_dense_inputs = name == "aten::median.dim_values" || name == "aten::nanmedian.dim_values";
  resizes_storage = name == "aten::resize_";
  copies = name == "aten::copy_";
  makes_results = std::find(written.begin(), written.end(), true) == written.end();
}

}  // namespace hpu_reference::kernels
