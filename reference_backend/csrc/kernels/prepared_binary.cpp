#include "kernels/prepared_table.h"
#include "kernels/structured_kernel.h"

#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/_softmax_native.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/addmm_native.h>
#include <ATen/ops/atan2_native.h>
#include <ATen/ops/bitwise_and_native.h>
#include <ATen/ops/bitwise_or_native.h>
#include <ATen/ops/bitwise_xor_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/copysign_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/eq_native.h>
#include <ATen/ops/fmax_native.h>
#include <ATen/ops/fmin_native.h>
#include <ATen/ops/fmod_native.h>
#include <ATen/ops/ge_native.h>
#include <ATen/ops/gt_native.h>
#include <ATen/ops/hypot_native.h>
#include <ATen/ops/le_native.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/logaddexp2_native.h>
#include <ATen/ops/logaddexp_native.h>
#include <ATen/ops/lt_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/mean_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mm_native.h>
#include <ATen/ops/mse_loss_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/sum_native.h>
#include <ATen/ops/xlogy_native.h>

namespace hpu_reference::kernels {

namespace {

// torch's relu is a clamp at zero.
std::unique_ptr<PreparedKernel> prepare_relu(const std::vector<c10::IValue>& arguments,
                                             const std::vector<bool>& constant,
                                             const at::Tensor& result) {
  return StructuredKernel<at::native::structured_clamp_min_out>::prepare(
      {arguments[0], at::Scalar(0)}, {constant[0], true}, result);
}

}  // namespace

const PreparedTable& prepared_binary_kernels() {
  using namespace at::native;  // NOLINT: for the class names
  static const auto* table = new PreparedTable{
      {"aten::relu", &prepare_relu},
      {"aten::relu_", &prepare_relu},
      {"aten::add.Tensor", &StructuredKernel<structured_ufunc_add_CPU>::prepare},
      {"aten::add_.Tensor", &StructuredKernel<structured_ufunc_add_CPU>::prepare},
      {"aten::sub.Tensor", &StructuredKernel<structured_sub_out>::prepare},
      {"aten::sub_.Tensor", &StructuredKernel<structured_sub_out>::prepare},
      {"aten::mul.Tensor", &StructuredKernel<structured_mul_out>::prepare},
      {"aten::mul_.Tensor", &StructuredKernel<structured_mul_out>::prepare},
      {"aten::div.Tensor", &StructuredKernel<structured_div_out>::prepare},
      {"aten::div_.Tensor", &StructuredKernel<structured_div_out>::prepare},
      {"aten::bitwise_and.Tensor", &StructuredKernel<structured_bitwise_and_out>::prepare},
      {"aten::bitwise_and_.Tensor", &StructuredKernel<structured_bitwise_and_out>::prepare},
      {"aten::bitwise_or.Tensor", &StructuredKernel<structured_bitwise_or_out>::prepare},
      {"aten::bitwise_or_.Tensor", &StructuredKernel<structured_bitwise_or_out>::prepare},
      {"aten::bitwise_xor.Tensor", &StructuredKernel<structured_bitwise_xor_out>::prepare},
      {"aten::bitwise_xor_.Tensor", &StructuredKernel<structured_bitwise_xor_out>::prepare},
      {"aten::copysign.Tensor", &StructuredKernel<structured_copysign_out>::prepare},
      {"aten::copysign_.Tensor", &StructuredKernel<structured_copysign_out>::prepare},
      {"aten::fmod.Tensor", &StructuredKernel<structured_fmod_out>::prepare},
      {"aten::fmod_.Tensor", &StructuredKernel<structured_fmod_out>::prepare},
      {"aten::remainder.Tensor", &StructuredKernel<structured_remainder_out>::prepare},
      {"aten::remainder_.Tensor", &StructuredKernel<structured_remainder_out>::prepare},
      {"aten::xlogy.Tensor", &StructuredKernel<structured_xlogy_out>::prepare},
      {"aten::xlogy_.Tensor", &StructuredKernel<structured_xlogy_out>::prepare},
      {"aten::atan2", &StructuredKernel<structured_atan2_out>::prepare},
      {"aten::atan2_", &StructuredKernel<structured_atan2_out>::prepare},
      {"aten::hypot", &StructuredKernel<structured_hypot_out>::prepare},
      {"aten::hypot_", &StructuredKernel<structured_hypot_out>::prepare},
      {"aten::maximum", &StructuredKernel<structured_maximum_out>::prepare},
      {"aten::minimum", &StructuredKernel<structured_minimum_out>::prepare},
      {"aten::fmax", &StructuredKernel<structured_fmax_out>::prepare},
      {"aten::fmin", &StructuredKernel<structured_fmin_out>::prepare},
      {"aten::logaddexp", &StructuredKernel<structured_logaddexp_out>::prepare},
      {"aten::logaddexp2", &StructuredKernel<structured_logaddexp2_out>::prepare},
      {"aten::eq.Tensor", &StructuredKernel<structured_eq_Tensor_out>::prepare},
      {"aten::eq.Scalar", &StructuredKernel<structured_eq_Scalar_out>::prepare},
      {"aten::ne.Tensor", &StructuredKernel<structured_ne_Tensor_out>::prepare},
      {"aten::ne.Scalar", &StructuredKernel<structured_ne_Scalar_out>::prepare},
      {"aten::lt.Tensor", &StructuredKernel<structured_lt_Tensor_out>::prepare},
      {"aten::lt.Scalar", &StructuredKernel<structured_lt_Scalar_out>::prepare},
      {"aten::le.Tensor", &StructuredKernel<structured_le_Tensor_out>::prepare},
      {"aten::le.Scalar", &StructuredKernel<structured_le_Scalar_out>::prepare},
      {"aten::gt.Tensor", &StructuredKernel<structured_gt_Tensor_out>::prepare},
      {"aten::gt.Scalar", &StructuredKernel<structured_gt_Scalar_out>::prepare},
      {"aten::ge.Tensor", &StructuredKernel<structured_ge_Tensor_out>::prepare},
      {"aten::ge.Scalar", &StructuredKernel<structured_ge_Scalar_out>::prepare},
      {"aten::addcmul", &StructuredKernel<structured_addcmul_out>::prepare},
      {"aten::addcmul_", &StructuredKernel<structured_addcmul_out>::prepare},
      {"aten::addcdiv", &StructuredKernel<structured_addcdiv_out>::prepare},
      {"aten::addcdiv_", &StructuredKernel<structured_addcdiv_out>::prepare},
      {"aten::lerp.Scalar", &StructuredKernel<structured_lerp_Scalar>::prepare},
      {"aten::lerp_.Scalar", &StructuredKernel<structured_lerp_Scalar>::prepare},
      {"aten::lerp.Tensor", &StructuredKernel<structured_lerp_Tensor>::prepare},
      {"aten::lerp_.Tensor", &StructuredKernel<structured_lerp_Tensor>::prepare},
      {"aten::clamp_min", &StructuredKernel<structured_clamp_min_out>::prepare},
      {"aten::clamp_min_", &StructuredKernel<structured_clamp_min_out>::prepare},
      {"aten::clamp_max", &StructuredKernel<structured_clamp_max_out>::prepare},
      {"aten::clamp_max_", &StructuredKernel<structured_clamp_max_out>::prepare},
      {"aten::pow.Tensor_Scalar", &StructuredKernel<structured_pow_Tensor_Scalar_out>::prepare},
      {"aten::pow.Tensor_Tensor", &StructuredKernel<structured_pow_Tensor_Tensor_out>::prepare},
      {"aten::mse_loss", &StructuredKernel<structured_mse_loss_out>::prepare},
      {"aten::mm", &StructuredKernel<structured_mm_out_cpu>::prepare},
      {"aten::bmm", &StructuredKernel<structured_bmm_out_cpu>::prepare},
      {"aten::addmm", &StructuredKernel<structured_addmm_out_cpu>::prepare},
      {"aten::sum.dim_IntList", &StructuredKernel<structured_sum_out>::prepare},
      {"aten::mean.dim", &StructuredKernel<structured_mean_out>::prepare},
      {"aten::_softmax", &StructuredKernel<structured_softmax_cpu_out>::prepare},
      {"aten::_log_softmax", &StructuredKernel<structured_log_softmax_cpu_out>::prepare},
  };
  return *table;
}

}  // namespace hpu_reference::kernels
