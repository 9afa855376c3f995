// The operators of SyncBatchNorm, which the CPU does not have, composed of device operators.
//
// Statistics have one number per channel, which is dimension 1 of the input. The statistics of half-precision
// inputs are in float32.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "device_key.h"

namespace hpu_reference::dispatch {

namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

// Returns the dtype in which values of the input are summed.
at::ScalarType sum_dtype(const Tensor& input) {
  const at::ScalarType type = input.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

// Returns all dimensions except the channel dimension.
std::vector<int64_t> reduced_dims(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2,
              "batch normalisation takes inputs of at least 2 dimensions, (N, C, ...), not of ",
              input.dim());
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) {
      dims.push_back(dim);
    }
  }
  return dims;
}

// Reshapes one number per channel so that it broadcasts with an input.
Tensor broadcast_channels(const Tensor& channels, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = channels.numel();
  return channels.to(sum_dtype(input)).reshape(shape);
}

Tensor multiply_by_weight(const Tensor& values, const Optional& weight, const Tensor& input) {
  return weight.has_value() && weight->defined() ? values * broadcast_channels(*weight, input) : values;
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  const std::vector<int64_t> dims = reduced_dims(input);
  const Tensor values = input.to(sum_dtype(input));
  const Tensor mean = values.mean(dims);
  const Tensor centered = values - broadcast_channels(mean, input);
  return {mean, at::rsqrt((centered * centered).mean(dims) + eps)};
}

// Combines the statistics of all ranks. `mean` and `invstd` have the shape (ranks, channels), and `counts`
// has one number per rank.
std::tuple<Tensor, Tensor> gather_stats_with_counts(const Tensor& input,
                                                    const Tensor& mean,
                                                    const Tensor& invstd,
                                                    const Optional& running_mean,
                                                    const Optional& running_var,
                                                    double momentum,
                                                    double eps,
                                                    const Tensor& counts) {
  const at::ScalarType type = sum_dtype(input);
  const Tensor means = mean.to(type);
  const Tensor share = counts.to(type).reshape({-1, 1});
  const Tensor total = share.sum();
  const Tensor all = (means * share).sum(0) / total;
  const Tensor centered = means - all;
  const Tensor variances = invstd.to(type).pow(-2) - eps;
  const Tensor var = ((variances + centered * centered) * share).sum(0) / total;
  if (running_mean.has_value() && running_mean->defined()) {
    running_mean->mul_(1 - momentum).add_(all.to(running_mean->scalar_type()), momentum);
  }
  if (running_var.has_value() && running_var->defined()) {
    const Tensor unbiased = var * (total / (total - 1));
    running_var->mul_(1 - momentum).add_(unbiased.to(running_var->scalar_type()), momentum);
  }
  return {all, at::rsqrt(var + eps)};
}

std::tuple<Tensor, Tensor> gather_stats(const Tensor& input,
                                        const Tensor& mean,
                                        const Tensor& invstd,
                                        const Optional& running_mean,
                                        const Optional& running_var,
                                        double momentum,
                                        double eps,
                                        int64_t count) {
  const Tensor counts = mean.new_full({mean.size(0)}, count);
  return gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

Tensor elemt(const Tensor& input,
             const Optional& weight,
             const Optional& bias,
             const Tensor& mean,
             const Tensor& invstd,
             double /*eps*/) {
  Tensor values =
      (input.to(sum_dtype(input)) - broadcast_channels(mean, input)) * broadcast_channels(invstd, input);
  values = multiply_by_weight(values, weight, input);
  if (bias.has_value() && bias->defined()) {
    values = values + broadcast_channels(*bias, input);
  }
  return values.to(input.scalar_type());
}

Tensor& elemt_out(const Tensor& input,
                  const Optional& weight,
                  const Optional& bias,
                  const Tensor& mean,
                  const Tensor& invstd,
                  double eps,
                  Tensor& out) {
  const Tensor values = elemt(input, weight, bias, mean, invstd, eps);
  out.resize_(values.sizes());
  return out.copy_(values);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad,
                                                           const Tensor& input,
                                                           const Tensor& mean,
                                                           const Tensor& invstd,
                                                           const Optional& weight,
                                                           bool input_g,
                                                           bool weight_g,
                                                           bool bias_g) {
  const std::vector<int64_t> dims = reduced_dims(input);
  const Tensor values = grad.to(sum_dtype(input));
  const Tensor sum = values.sum(dims);
  const Tensor product = (values * (input.to(sum_dtype(input)) - broadcast_channels(mean, input))).sum(dims);
  const at::ScalarType type =
      weight.has_value() && weight->defined() ? weight->scalar_type() : sum_dtype(input);
  std::tuple<Tensor, Tensor, Tensor, Tensor> result;
  if (input_g) {
    std::get<0>(result) = sum;
    std::get<1>(result) = product;
  }
  if (weight_g) {
    std::get<2>(result) = (product * invstd.to(sum_dtype(input))).to(type);
  }
  if (bias_g) {
    std::get<3>(result) = sum.to(type, /*non_blocking=*/false, /*copy=*/true);
  }
  return result;
}

Tensor backward_elemt(const Tensor& grad,
                      const Tensor& input,
                      const Tensor& mean,
                      const Tensor& invstd,
                      const Optional& weight,
                      const Tensor& sum,
                      const Tensor& product,
                      const Tensor& counts) {
  const at::ScalarType type = sum_dtype(input);
  const Tensor total = counts.to(type).sum();
  const Tensor scale = broadcast_channels(invstd, input);
  const Tensor centered = input.to(type) - broadcast_channels(mean, input);
  const Tensor inner = grad.to(type) - broadcast_channels(sum / total, input) -
                       centered * scale * scale * broadcast_channels(product / total, input);
  return multiply_by_weight(inner * scale, weight, input).to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  m.impl("batch_norm_stats", stats);
  m.impl("batch_norm_gather_stats", gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", gather_stats_with_counts);
  m.impl("batch_norm_elemt", elemt);
  m.impl("batch_norm_elemt.out", elemt_out);
  m.impl("batch_norm_backward_reduce", backward_reduce);
  m.impl("batch_norm_backward_elemt", backward_elemt);
}

}  // namespace

}  // namespace hpu_reference::dispatch
