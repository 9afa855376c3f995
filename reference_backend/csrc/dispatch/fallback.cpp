#include "dispatch/fallback.h"

#include <ATen/core/List.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>

#include "device_key.h"
#include "kernels/host_call.h"
#include "runtime/capture_scope.h"
#include "runtime/device.h"
#include "runtime/event_listener.h"
#include "runtime/log.h"

namespace hpu_reference::dispatch {

namespace {

struct Policy {
  bool all = true;
  std::set<std::string> names;
};

std::mutex g_mutex;
std::map<std::string, std::int64_t> g_counts;

Policy parse_policy(const std::string& text) {
  Policy policy;
  policy.all = text.empty();
  if (text != "none") {
    std::istringstream list(text);
    for (std::string name; std::getline(list, name, ',');) {
      name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
      policy.names.insert(name);
    }
  }
  return policy;
}

Policy& policy() {
  static Policy value = [] {
    const char* text = std::getenv("PT_HPU_PLACE_ON_CPU");
    return parse_policy(text == nullptr ? "" : text);
  }();
  return value;
}

std::string short_name(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.rfind("aten::", 0) == 0 ? name.substr(6) : name;
}

void log_fallback(const std::string& name, const c10::FunctionSchema& schema, const c10::IValue* arguments) {
  std::ostringstream line;
  line << "CPU fallback " << name << " :";
  for (std::size_t i = 0; i < schema.arguments().size(); i++) {
    if (arguments[i].isTensor() && arguments[i].toTensor().defined()) {
      line << ' ' << schema.arguments()[i].name() << '=' << arguments[i].toTensor().toString();
    }
  }
  runtime::write_log(runtime::LogModule::Fallback, runtime::LogLevel::Debug, line.str());
}

struct Moved {
  at::Tensor device;
  at::Tensor host;
  bool written;
};

using MovedList = std::vector<Moved>;

at::Tensor to_cpu(const at::Tensor& tensor, bool written, MovedList& moved) {
  if (!tensor.defined() || !kernels::is_device_tensor(tensor)) {
    return tensor;
  }
  for (auto& pair : moved) {
    if (pair.device.is_same(tensor)) {
      pair.written |= written;
      return pair.host;
    }
  }
  moved.push_back({tensor, tensor.to(c10::DeviceType::CPU), written});
  return moved.back().host;
}

at::Tensor to_device(const at::Tensor& tensor, const MovedList& moved) {
  if (!tensor.defined()) {
    return tensor;
  }
  for (const auto& pair : moved) {
    if (pair.host.is_same(tensor)) {
      return pair.device;
    }
  }
  return tensor.to(runtime::kDevice);
}

template <class Convert>
c10::IValue convert_value(const c10::IValue& value, Convert convert) {
  if (value.isTensor()) {
    return convert(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    for (const at::Tensor& tensor : value.toTensorList()) {
      result.push_back(convert(tensor));
    }
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> result;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      result.push_back(tensor.has_value() ? std::make_optional(convert(*tensor)) : std::nullopt);
    }
    return result;
  }
  return value;
}

void count_fallback(const c10::OperatorHandle& op, const std::string& name) {
  std::lock_guard<std::mutex> lock(g_mutex);
  const auto& allowed = policy();
  TORCH_CHECK(
      allowed.all || allowed.names.count(name) != 0 || allowed.names.count(op.operator_name().name) != 0,
      op.operator_name().name,
      " is not yet supported on HPU. (PT_HPU_PLACE_ON_CPU forbids its CPU fallback; add the operator to that "
      "list)");
  g_counts[op.operator_name().name]++;
}

// The kernel of operators without a device kernel: user-defined operators, and operators that are registered
// after the device's kernels.
void run_unregistered_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string& name = op.operator_name().name;
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && name.rfind("c10d::", 0) != 0,
      "Could not run '",
      c10::toString(op.operator_name()),
      "' with arguments from the '" DEVICE_NAME "' backend: the operator has no kernel for this backend",
      name.rfind("c10d::", 0) == 0 ? "" : " and no CPU kernel to fall back to",
      "; register a kernel with torch.library, or move the tensors with .cpu()");
  run_fallback(kernels::OperatorPlan(op), op, stack);
}

TORCH_LIBRARY_IMPL(_, DEVICE_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_unregistered_operator>());
}

}  // namespace

void run_fallback(const kernels::OperatorPlan& plan,
                  const c10::OperatorHandle& op,
                  torch::jit::Stack* stack) {
  const std::string name = short_name(op);
  TORCH_CHECK(!runtime::is_capturing(),
              "cpu fallback is not supported during hpu graph capturing, but ",
              op.operator_name().name,
              " needs it; move the operator out of the capture");
  count_fallback(op, name);
  runtime::emit_event("CPU_FALLBACK", {{"op_name", op.operator_name().name}});
  const std::size_t first = stack->size() - plan.arguments;
  plan.normalize_lists(stack->data() + first);
  if (runtime::is_logged(runtime::LogModule::Fallback, runtime::LogLevel::Debug)) {
    log_fallback(name, op.schema(), &(*stack)[first]);
  }
  MovedList moved;
  moved.reserve(plan.arguments);
  for (std::size_t i = 0; i < plan.arguments; i++) {
    c10::IValue& value = (*stack)[first + i];
    if (value.isDevice() && value.toDevice().type() == c10::DeviceType::DEVICE_KEY) {
      value = c10::Device(c10::DeviceType::CPU);
    } else {
      value = convert_value(value,
                            [&](const at::Tensor& tensor) { return to_cpu(tensor, plan.written[i], moved); });
    }
  }
  op.callBoxed(stack);
  for (const auto& pair : moved) {
    if (pair.written) {
      if (pair.device.sizes() != pair.host.sizes()) {
        pair.device.resize_(pair.host.sizes());
      }
      pair.device.copy_(pair.host);
    }
  }
  const std::size_t result = stack->size() - plan.returns;
  for (std::size_t i = 0; i < plan.returns; i++) {
    c10::IValue& value = (*stack)[result + i];
    value = convert_value(value, [&](const at::Tensor& tensor) { return to_device(tensor, moved); });
  }
}

std::map<std::string, std::int64_t> fallback_counts() {
  std::lock_guard<std::mutex> lock(g_mutex);
  return g_counts;
}

void reset_fallback_counts() {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_counts.clear();
}

void set_fallback_policy(const std::string& text) {
  std::lock_guard<std::mutex> lock(g_mutex);
  policy() = parse_policy(text);
}

}  // namespace hpu_reference::dispatch
