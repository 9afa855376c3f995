#include "kernels/prepared_kernel.h"

#include <string_view>
#include <unordered_map>

#include "kernels/hardware_limits.h"
#include "kernels/prepared_table.h"

namespace hpu_reference::kernels {

namespace {

// Number of elements above which the benefit of a prepared kernel does not justify its memory and its check.
constexpr std::int64_t kLarge = 1 << 16;

bool is_simple(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == c10::kStrided &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor() && tensor.numel() > 0 &&
         tensor.numel() <= kLarge;
}

PrepareFunction find(const OperatorPlan& plan) {
  static const auto* table = new std::unordered_map<std::string_view, PrepareFunction>([] {
    std::unordered_map<std::string_view, PrepareFunction> functions;
    for (const auto* table_part :
         {&prepared_unary_kernels(), &prepared_binary_kernels(), &prepared_copy_kernels()}) {
      for (const auto& [name, function] : *table_part) {
        functions.emplace(name, function);
      }
    }
    return functions;
  }());
  const auto entry = table->find(plan.name);
  return entry == table->end() ? nullptr : entry->second;
}

}  // namespace

bool can_prepare(const OperatorPlan& plan) {
  return !has_hardware_limits() && find(plan) != nullptr;
}

std::unique_ptr<PreparedKernel> prepare_kernel(const OperatorPlan& plan,
                                               const std::vector<c10::IValue>& arguments,
                                               const std::vector<bool>& constant,
                                               const at::Tensor& result) {
  const PrepareFunction function = find(plan);
  if (has_hardware_limits() || function == nullptr || !is_simple(result) ||
      !result.is_non_overlapping_and_dense()) {
    return nullptr;
  }
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && !is_simple(argument.toTensor())) {
      return nullptr;
    }
  }
  return function(arguments, constant, result);
}

}  // namespace hpu_reference::kernels
