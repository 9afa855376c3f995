#include "dispatch/kernel_table.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <unordered_set>

#include "device_key.h"
#include "dispatch/boxed_kernel.h"
#include "dispatch/fallback.h"
#include "dispatch/unboxed_kernels.h"
#include "kernels/hardware_limits.h"

namespace hpu_reference::dispatch {

namespace {

struct KeyPair {
  c10::DispatchKey host;
  c10::DispatchKey device;
};

constexpr std::array<KeyPair, 5> kKeys = {
    {{c10::DispatchKey::CPU, c10::DispatchKey::DEVICE_KEY},
     {c10::DispatchKey::SparseCPU, c10::DispatchKey::SPARSE_DEVICE_KEY},
     {c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::SPARSE_CSR_DEVICE_KEY},
     {c10::DispatchKey::QuantizedCPU, c10::DispatchKey::QUANTIZED_DEVICE_KEY},
     {c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NESTED_DEVICE_KEY}}};

std::vector<KernelEntry> g_table;

// Returns true for namespaces whose CPU kernels the device uses. Other namespaces are not suitable: c10d
// operators need a process group of the device, and onednn, mkldnn and mkl operators create opaque CPU
// tensors.
bool is_covered_namespace(const std::string& name) {
  for (const char* prefix : {"aten::", "quantized::", "_quantized::", "quantization::", "sparse::"}) {
    if (name.rfind(prefix, 0) == 0) {
      return name.find("mkldnn") == std::string::npos;
    }
  }
  return false;
}

// Returns true for composite operators that run as a whole on the CPU instead of as their parts. They choose
// an implementation by device, call vectorized code that is registered per device, or access host memory.
// Each listed operator must have its own derivative formula or no derivative: a device kernel disables a
// derivative that autograd computes from the parts.
bool runs_whole_on_cpu(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::convolution",
      "aten::_convolution",
      "aten::convolution_backward",
      "aten::linalg_lstsq",
      "aten::mode.values",
      "aten::conj_physical_",
      "aten::_batch_norm_no_update",
      "aten::kaiser_window",
      "aten::kaiser_window.periodic",
      "aten::kaiser_window.beta",
      "aten::range.out_",
      "aten::_sobol_engine_draw",
      "aten::_sobol_engine_ff_",
      "aten::_sobol_engine_scramble_",
      "aten::_sobol_engine_initialize_state_",
      "aten::choose_qparams_optimized",
      "aten::_saturate_weight_to_fp16",
  };
  return names.count(name) != 0 || name.rfind("aten::fbgemm_", 0) == 0;
}

// Returns the operators that run on the CPU although the device has kernels for them. PT_HPU_PLACE_ON_CPU and
// HPU_REFERENCE_FALLBACK_OPS list these operators by name without overload, separated by commas. Only the
// first variable also determines which operators may fall back to the CPU (see fallback.h).
std::unordered_set<std::string> declared_fallbacks() {
  std::unordered_set<std::string> names;
  for (const char* variable : {"PT_HPU_PLACE_ON_CPU", "HPU_REFERENCE_FALLBACK_OPS"}) {
    const char* text = std::getenv(variable);
    std::istringstream list(text == nullptr ? "" : text);
    for (std::string name; std::getline(list, name, ',');) {
      name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
      if (!name.empty() && name != "none") {
        names.insert(name.find("::") == std::string::npos ? "aten::" + name : name);
      }
    }
  }
  return names;
}

c10::KernelFunction fallback_kernel(const c10::OperatorHandle& op) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<FallbackKernel>(op));
}

// Computes gelu by tanh, as the hardware does, even if the caller requests another formula.
class TanhKernel final : public c10::OperatorKernel {
 public:
  TanhKernel(const c10::OperatorHandle& op, c10::DispatchKey host)
      : kernel_(op, host), position_(*op.schema().argumentIndexWithName("approximate")) {
  }
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    c10::IValue& form =
        (*stack)[stack->size() - kernel_.plan().arguments + static_cast<std::size_t>(position_)];
    if (kernels::forces_tanh_gelu() && form.toStringView() == "none") {
      form = "tanh";
    }
    kernel_(op, keys, stack);
  }

 private:
  BoxedKernel kernel_;
  int position_;
};

// aten::_scaled_mm. The CPU's kernel ignores scale_result. This kernel requests a float32 product and
// multiplies it by scale_result.
class ScaledProductKernel final : public c10::OperatorKernel {
 public:
  ScaledProductKernel(const c10::OperatorHandle& op, c10::DispatchKey host)
      : kernel_(op, host),
        scale_result_(index_of(op, "scale_result")),
        out_dtype_(index_of(op, "out_dtype")),
        writes_out_(op.operator_name().overload_name == "out") {
  }
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    const std::size_t first = stack->size() - kernel_.plan().arguments;
    c10::IValue& scale_argument = (*stack)[first + scale_result_];
    if (scale_argument.isNone()) {
      kernel_(op, keys, stack);
      return;
    }
    c10::IValue& out_dtype = (*stack)[first + out_dtype_];
    const at::ScalarType dtype =
        out_dtype.isNone() ? (*stack)[first].toTensor().scalar_type() : out_dtype.toScalarType();
    const at::Tensor scale = scale_argument.toTensor();
    if (writes_out_) {
      write_out(stack, first);
      return;
    }
    scale_argument = c10::IValue();
    out_dtype = at::kFloat;
    kernel_(op, keys, stack);
    stack->back() = at::mul(stack->back().toTensor(), scale).to(dtype);
  }

 private:
  // Calls the functional overload and copies the result to the out= argument.
  void write_out(torch::jit::Stack* stack, std::size_t first) const {
    const auto argument = [&](std::size_t i) -> c10::IValue& { return (*stack)[first + i]; };
    at::Tensor out = stack->back().toTensor();
    const at::Tensor result = at::_scaled_mm(argument(0).toTensor(),
                                             argument(1).toTensor(),
                                             argument(2).toTensor(),
                                             argument(3).toTensor(),
                                             argument(4).toOptional<at::Tensor>(),
                                             argument(scale_result_).toOptional<at::Tensor>(),
                                             out.scalar_type(),
                                             argument(out_dtype_ + 1).toBool());
    at::native::resize_output(out, result.sizes());
    out.copy_(result);
    stack->resize(first);
    stack->emplace_back(std::move(out));
  }
  static std::size_t index_of(const c10::OperatorHandle& op, const char* name) {
    return static_cast<std::size_t>(*op.schema().argumentIndexWithName(name));
  }

  BoxedKernel kernel_;
  std::size_t scale_result_;
  std::size_t out_dtype_;
  bool writes_out_;
};

// aten::convolution. torch.jit.trace records aten::_convolution, not aten::convolution. During a trace, this
// kernel calls aten::_convolution with the program's tensors, so that the trace does not contain host
// aliases.
class ConvolutionKernel final : public c10::OperatorKernel {
 public:
  ConvolutionKernel(const c10::OperatorHandle& op, c10::DispatchKey host) : kernel_(op, host) {
  }
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    if (C10_LIKELY(!torch::jit::tracer::isTracing())) {
      kernel_(op, keys, stack);
      return;
    }
    const std::size_t first = stack->size() - kernel_.plan().arguments;
    const auto argument = [&](std::size_t i) -> c10::IValue& { return (*stack)[first + i]; };
    at::Tensor result = at::native::convolution(argument(0).toTensor(),
                                                argument(1).toTensor(),
                                                argument(2).toOptional<at::Tensor>(),
                                                argument(3).toIntVector(),
                                                argument(4).toIntVector(),
                                                argument(5).toIntVector(),
                                                argument(6).toBool(),
                                                argument(7).toIntVector(),
                                                argument(8).toInt());
    stack->resize(first);
    stack->emplace_back(std::move(result));
  }

 private:
  BoxedKernel kernel_;
};

c10::KernelFunction host_kernel(const c10::OperatorHandle& op, c10::DispatchKey host) {
  if (op.operator_name().name == "aten::_scaled_mm") {
    return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<ScaledProductKernel>(op, host));
  }
  if (op.operator_name().name == "aten::convolution" && op.operator_name().overload_name.empty()) {
    return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<ConvolutionKernel>(op, host));
  }
  if (kernels::has_hardware_limits() && op.schema().argumentIndexWithName("approximate").has_value()) {
    return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<TanhKernel>(op, host));
  }
  if (host == c10::DispatchKey::CPU) {
    if (auto kernel = unboxed_kernel(op)) {
      return *std::move(kernel);
    }
  }
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(op, host));
}

// Calls torch's kernel of an operator on nested tensors for the key HPU. These kernels are composed of
// operators on dense tensors, and torch registers none of them for PrivateUse1.
class NestedKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::NestedTensorHPU), stack);
  }
};

bool can_use_hpu_nested_kernel(const c10::OperatorHandle& op, c10::DispatchKey device) {
  return DEVICE_KEY_IS_PRIVATEUSE1 && device == c10::DispatchKey::NESTED_DEVICE_KEY &&
         op.hasKernelForDispatchKey(c10::DispatchKey::NestedTensorHPU);
}

}  // namespace

void register_host_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto fallbacks = declared_fallbacks();
  std::unordered_set<std::string> not_yet_placed = fallbacks;
  // Never released: the kernels live as long as the process.
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  for (const c10::OperatorName& operator_name : dispatcher.getAllOpNames()) {
    const std::string name = c10::toString(operator_name);
    if (!is_covered_namespace(name)) {
      continue;
    }
    const auto op = dispatcher.findSchema(operator_name);
    if (!op.has_value()) {
      continue;
    }
    for (const auto& [host, device] : kKeys) {
      const bool has_host_kernel =
          op->hasKernelForDispatchKey(host) || (host == c10::DispatchKey::CPU && runs_whole_on_cpu(name));
      if (!has_host_kernel || op->hasKernelForDispatchKey(device)) {
        continue;
      }
      if (can_use_hpu_nested_kernel(*op, device)) {
        handles->push_back(dispatcher.registerImpl(
            operator_name,
            device,
            c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<NestedKernel>()),
            std::nullopt,
            nullptr,
            "hpu reference"));
        continue;
      }
      const bool fallback = fallbacks.count(operator_name.name) != 0;
      not_yet_placed.erase(operator_name.name);
      handles->push_back(dispatcher.registerImpl(operator_name,
                                                 device,
                                                 fallback ? fallback_kernel(*op) : host_kernel(*op, host),
                                                 std::nullopt,
                                                 nullptr,
                                                 "hpu reference"));
      g_table.push_back({c10::toString(device), name, fallback ? "fallback" : "host"});
    }
  }
  for (const std::string& name : not_yet_placed) {
    // Do not warn of other namespaces: their operators may be defined later.
    if (name.rfind("aten::", 0) == 0) {
      TORCH_WARN(
          "PT_HPU_PLACE_ON_CPU or HPU_REFERENCE_FALLBACK_OPS lists ",
          name,
          ", but the device cannot place it on the CPU: torch has no such operator, or the operator is a "
          "composite (list the operators that it calls), or the device registers its own kernel for it");
    }
  }
  std::sort(g_table.begin(), g_table.end(), [](const KernelEntry& a, const KernelEntry& b) {
    return std::tie(a.key, a.name) < std::tie(b.key, b.name);
  });
}

const std::vector<KernelEntry>& kernel_table() {
  return g_table;
}

}  // namespace hpu_reference::dispatch
