#include "kernels/host_kernel.h"

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

#include "device_key.h"
#include "kernels/host_call.h"
#include "kernels/trace_labels.h"
#include "kernels/upcast_kernel.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/host_access.h"
#include "runtime/trace.h"

namespace hpu_reference::kernels {

namespace {

c10::IValue host_value(HostCall& call, const c10::IValue& value, Access access, const char* name) {
  if (value.isTensor()) {
    return call.host(value.toTensor(), access, name);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    const auto tensors = value.toTensorList();
    result.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      result.push_back(call.host(tensor, access, name));
    }
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> result;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      result.push_back(tensor.has_value() ? std::make_optional(call.host(*tensor, access, name))
                                          : std::nullopt);
    }
    return result;
  }
  if (value.isDevice() && value.toDevice().type() == c10::DeviceType::DEVICE_KEY) {
    runtime::checked_index(value.toDevice().index());
    return c10::Device(c10::DeviceType::CPU);
  }
  return value;
}

c10::IValue device_value(HostCall& call, c10::IValue&& value) {
  if (value.isTensor()) {
    return call.device(std::move(value).toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> results = std::move(value).toTensorList();
    c10::List<at::Tensor> result;
    result.reserve(results.size());
    for (std::size_t i = 0; i < results.size(); i++) {
      result.push_back(call.device(results.extract(i)));
    }
    return result;
  }
  return std::move(value);
}

}  // namespace

void HostKernel::run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
  HostCall call(plan_.returns_tensors, plan_.data_dependent, /*recorder_declined=*/true);
  if (plan_.resizes_storage) {
    call.allow_short_storages();
  }
  const std::size_t first = stack->size() - plan_.arguments;
  const bool mixes = runtime::accepts_host_arguments();
  for (std::size_t i = 0; i < plan_.arguments; i++) {
    c10::IValue& value = (*stack)[first + i];
    call.allow_cpu_tensors(plan_.cpu_allowed[i] || (mixes && !plan_.written[i]));
    value = host_value(call, value, plan_.written[i] ? Access::Write : Access::Read, plan_.name.c_str());
  }
  if (plan_.generator >= 0) {
    c10::IValue& value = (*stack)[first + static_cast<std::size_t>(plan_.generator)];
    value = runtime::seeded_cpu_generator(
        runtime::draw_seed(value.isNone() ? std::nullopt : std::make_optional(value.toGenerator())));
  }
  {
    runtime::TraceSpan span(runtime::TraceKind::Kernel, plan_.name);
    if (span.is_active()) {
      span.add_bytes(bytes_of(stack->data() + first, plan_.arguments));
    }
    if (dense_) {
      run_with_upcast(plan_, op, key_, stack);
    } else {
      op.redispatchBoxed(key_, stack);
    }
    if (span.is_active() && plan_.makes_results) {
      span.add_bytes(bytes_of(stack->data() + first, plan_.returns));
    }
  }
  call.kernel_done();
  call.finish();
  const std::size_t result = stack->size() - plan_.returns;
  for (std::size_t i = 0; i < plan_.returns; i++) {
    c10::IValue& value = (*stack)[result + i];
    value = device_value(call, std::move(value));
  }
}

}  // namespace hpu_reference::kernels
