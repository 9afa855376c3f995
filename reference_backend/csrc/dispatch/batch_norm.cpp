// Batch normalization with the saved statistics that torch's decompositions expect of a device other than the
// CPU. The values come from the CPU kernel.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_native_batch_norm_legit_ops.h>
#include <ATen/ops/add.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "device_key.h"
#include "dispatch/boxed_kernel.h"

namespace hpu_reference::dispatch {

namespace {

using Norm = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// In evaluation mode, returns the running statistics as the saved statistics, as devices other than the CPU
// do. The CPU saves no statistics in this mode.
Norm with_saved_statistics(
    Norm&& result, bool training, const at::Tensor& mean, const at::Tensor& var, double eps) {
  if (!training && mean.defined() && var.defined()) {
    std::get<1>(result) = mean.clone();
    std::get<2>(result) = at::rsqrt(at::add(var, eps));
  }
  return std::move(result);
}

// Returns the CPU kernel of an operator whose device kernel is in this file.
const BoxedKernel& host_kernel(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* kernels = new std::unordered_map<std::string, std::unique_ptr<BoxedKernel>>();
  const std::lock_guard<std::mutex> lock(mutex);
  auto& kernel = (*kernels)[c10::toString(op.operator_name())];
  if (kernel == nullptr) {
    kernel = std::make_unique<BoxedKernel>(op, c10::DispatchKey::CPU);
  }
  return *kernel;
}

template <class Operator, class Statistics>
Norm batch_norm(const at::Tensor& input,
                const std::optional<at::Tensor>& weight,
                const std::optional<at::Tensor>& bias,
                Statistics mean,
                Statistics var,
                bool training,
                double momentum,
                double eps) {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow(Operator::name, Operator::overload_name);
  static const BoxedKernel& kernel = host_kernel(op);
  torch::jit::Stack stack;
  torch::jit::push(stack, input, weight, bias, mean, var, training, momentum, eps);
  kernel(op, c10::DispatchKeySet(c10::DispatchKey::DEVICE_KEY), &stack);
  Norm result = {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
  stack.clear();
  const std::optional<at::Tensor> device_mean = mean, device_var = var;
  return with_saved_statistics(std::move(result),
                               training,
                               device_mean.value_or(at::Tensor()),
                               device_var.value_or(at::Tensor()),
                               eps);
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  m.impl("native_batch_norm", batch_norm<at::_ops::native_batch_norm, const std::optional<at::Tensor>&>);
  m.impl("_native_batch_norm_legit", batch_norm<at::_ops::_native_batch_norm_legit, at::Tensor&>);
}

}  // namespace

}  // namespace hpu_reference::dispatch
