#include "dispatch/unboxed_kernels.h"

#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/where_ops.h>

#include <string>
#include <unordered_map>

#include "dispatch/unboxed_kernel.h"

namespace hpu_reference::dispatch {

namespace {

using Make = std::optional<c10::KernelFunction> (*)(const c10::OperatorHandle& op);

template <class Operator>
std::optional<c10::KernelFunction> make_unboxed_kernel(const c10::OperatorHandle& op) {
  using Kernel = UnboxedKernel<Operator>;
  if (!Kernel::supports(kernels::OperatorPlan(op))) {
    return std::nullopt;
  }
  return c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(std::make_unique<Kernel>(op));
}

template <class... Operators>
std::unordered_map<std::string, Make> make_factory_table() {
  std::unordered_map<std::string, Make> table;
  const auto add = [&](std::string name, const std::string& overload, Make function) {
    table.emplace(overload.empty() ? std::move(name) : name + '.' + overload, function);
  };
  (add(Operators::name, Operators::overload_name, &make_unboxed_kernel<Operators>), ...);
  return table;
}

}  // namespace

std::optional<c10::KernelFunction> unboxed_kernel(const c10::OperatorHandle& op) {
  static const auto* table =
      new std::unordered_map<std::string, Make>(make_factory_table<at::_ops::add_Tensor,
                                                                   at::_ops::add__Tensor,
                                                                   at::_ops::add_out,
                                                                   at::_ops::sub_Tensor,
                                                                   at::_ops::sub__Tensor,
                                                                   at::_ops::sub_out,
                                                                   at::_ops::mul_Tensor,
                                                                   at::_ops::mul__Tensor,
                                                                   at::_ops::mul_out,
                                                                   at::_ops::div_Tensor,
                                                                   at::_ops::div__Tensor,
                                                                   at::_ops::div_out,
                                                                   at::_ops::maximum,
                                                                   at::_ops::minimum,
                                                                   at::_ops::pow_Tensor_Scalar,
                                                                   at::_ops::pow_Tensor_Tensor,
                                                                   at::_ops::eq_Tensor,
                                                                   at::_ops::eq_Scalar,
                                                                   at::_ops::ne_Tensor,
                                                                   at::_ops::ne_Scalar,
                                                                   at::_ops::lt_Tensor,
                                                                   at::_ops::lt_Scalar,
                                                                   at::_ops::le_Tensor,
                                                                   at::_ops::le_Scalar,
                                                                   at::_ops::gt_Tensor,
                                                                   at::_ops::gt_Scalar,
                                                                   at::_ops::ge_Tensor,
                                                                   at::_ops::ge_Scalar,
                                                                   at::_ops::where_self,
                                                                   at::_ops::addcmul,
                                                                   at::_ops::addcmul_,
                                                                   at::_ops::addcdiv,
                                                                   at::_ops::addcdiv_,
                                                                   at::_ops::lerp_Scalar,
                                                                   at::_ops::lerp__Scalar,
                                                                   at::_ops::neg,
                                                                   at::_ops::exp,
                                                                   at::_ops::log,
                                                                   at::_ops::sqrt,
                                                                   at::_ops::rsqrt,
                                                                   at::_ops::sigmoid,
                                                                   at::_ops::tanh,
                                                                   at::_ops::sin,
                                                                   at::_ops::cos,
                                                                   at::_ops::reciprocal,
                                                                   at::_ops::relu,
                                                                   at::_ops::relu_,
                                                                   at::_ops::gelu,
                                                                   at::_ops::silu,
                                                                   at::_ops::abs_out,
                                                                   at::_ops::neg_out,
                                                                   at::_ops::exp_out,
                                                                   at::_ops::log_out,
                                                                   at::_ops::sqrt_out,
                                                                   at::_ops::rsqrt_out,
                                                                   at::_ops::sigmoid_out,
                                                                   at::_ops::tanh_out,
                                                                   at::_ops::threshold_backward,
                                                                   at::_ops::sigmoid_backward,
                                                                   at::_ops::tanh_backward,
                                                                   at::_ops::gelu_backward,
                                                                   at::_ops::silu_backward,
                                                                   at::_ops::_softmax_backward_data,
                                                                   at::_ops::_log_softmax_backward_data,
                                                                   at::_ops::_softmax,
                                                                   at::_ops::_log_softmax,
                                                                   at::_ops::sum_dim_IntList,
                                                                   at::_ops::mean_dim,
                                                                   at::_ops::amax,
                                                                   at::_ops::mm,
                                                                   at::_ops::mm_out,
                                                                   at::_ops::addmm,
                                                                   at::_ops::addmm_out,
                                                                   at::_ops::bmm,
                                                                   at::_ops::bmm_out>());
  const auto factory = table->find(c10::toString(op.operator_name()));
  return factory == table->end() ? std::nullopt : factory->second(op);
}

}  // namespace hpu_reference::dispatch
