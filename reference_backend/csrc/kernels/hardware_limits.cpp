#include "kernels/hardware_limits.h"

#include <ATen/ops/clamp.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "kernels/host_call.h"

namespace hpu_reference::kernels {

namespace {

// Returns the name in HPU_REFERENCE_PROFILE. The Python package rejects an unknown name when it is imported.
std::string hardware_model() {
  const char* text = std::getenv("HPU_REFERENCE_PROFILE");
  return text == nullptr ? "" : text;
}

std::atomic<bool> g_wide_integers{false};
std::atomic<bool> g_range_check{true};
std::atomic<bool> g_tanh_gelu{true};

template <class Element, class Function>
void for_each_element(const at::Tensor& tensor, Function function) {
  auto* data = static_cast<Element*>(tensor.unsafeGetTensorImpl()->mutable_data());
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  if (tensor.is_contiguous()) {
    for (std::int64_t i = 0; i < tensor.numel(); i++) {
      function(data[i]);
    }
    return;
  }
  c10::SmallVector<std::int64_t, 8> position(sizes.size(), 0);
  for (std::int64_t remaining = tensor.numel(); remaining > 0; remaining--) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < sizes.size(); d++) {
      offset += position[d] * strides[d];
    }
    function(data[offset]);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++position[d] < sizes[d]) {
        break;
      }
      position[d] = 0;
    }
  }
}

// Mask of the bits of a float8_e4m3fn number other than the sign. These bits grow with the magnitude; 0x7F is
// NaN.
constexpr std::uint8_t kMagnitude = 0x7F;
constexpr std::uint8_t k240 = 0x77;

bool is_dense_host(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == c10::kStrided &&
         tensor.has_storage() && tensor.numel() > 0 && !tensor.is_quantized() &&
         tensor.unsafeGetTensorImpl()->unsafe_storage().data() != nullptr;
}

void check_range(const at::Tensor& target, const at::Tensor& source) {
  const bool integers = source.scalar_type() == at::kLong && !g_wide_integers;
  if (!g_range_check || !is_dense_host(source) || target.scalar_type() != source.scalar_type() ||
      !(integers || source.scalar_type() == at::kDouble)) {
    return;
  }
  if (integers) {
    for_each_element<std::int64_t>(source, [](std::int64_t value) {
      TORCH_CHECK(value >= std::numeric_limits<std::int32_t>::min() &&
                      value <= std::numeric_limits<std::int32_t>::max(),
                  "the int64 value ",
                  value,
                  " does not fit into the 32 bits in which the device stores int64: set "
                  "PT_ENABLE_INT64_SUPPORT=1, or PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK=0 to let it wrap");
    });
    return;
  }
  for_each_element<double>(source, [](double value) {
    TORCH_CHECK(!std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max(),
                "the float64 value ",
                value,
                " is beyond float32, in which the device stores float64: scale the value, or set "
                "PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK=0 to make it infinite");
  });
}

}  // namespace

const bool g_has_hardware_limits = !hardware_model().empty();

double largest_e4m3() {
  static const bool small = hardware_model() == "gaudi2";
  return small ? 240 : 448;
}

void set_wide_integers(bool on) {
  g_wide_integers = on;
}

void set_range_check(bool on) {
  g_range_check = on;
}

void set_tanh_gelu(bool on) {
  g_tanh_gelu = on;
}

bool forces_tanh_gelu() {
  return g_tanh_gelu;
}

void check_dtype(at::ScalarType dtype) {
  TORCH_CHECK(!at::isComplexType(dtype), "Complex datatype is not supported on HPU device.");
}

void round_to_hardware(const at::Tensor& host) {
  if (!is_dense_host(host)) {
    return;
  }
  if (host.scalar_type() == at::kDouble) {
    for_each_element<double>(host, [](double& value) { value = static_cast<float>(value); });
  } else if (host.scalar_type() == at::kLong && !g_wide_integers) {
    for_each_element<std::int64_t>(host, [](std::int64_t& value) {
      value = static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)));
    });
  } else if (host.scalar_type() == at::kFloat8_e4m3fn && largest_e4m3() < 448) {
    for_each_element<std::uint8_t>(host, [](std::uint8_t& bits) {
      const std::uint8_t magnitude = bits & kMagnitude;
      if (magnitude > k240 && magnitude != kMagnitude) {
        bits = static_cast<std::uint8_t>((bits & ~kMagnitude) | k240);
      }
    });
  }
}

void round_results_to_hardware(const OperatorPlan& plan,
                               const std::vector<c10::IValue>& arguments,
                               const c10::IValue* results) {
  const auto round_value = [](const c10::IValue& value) {
    if (value.isTensor()) {
      round_to_hardware(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorList().vec()) {
        round_to_hardware(tensor);
      }
    }
  };
  for (std::size_t i = 0; i < plan.arguments; i++) {
    if (plan.written[i]) {
      round_value(arguments[i]);
    }
  }
  for (std::size_t i = 0; i < plan.returns; i++) {
    round_value(results[i]);
  }
}

at::Tensor round_source_to_hardware(const at::Tensor& target, const at::Tensor& source) {
  if (!is_device_tensor(target)) {
    return source;
  }
  check_range(target, source);
  const at::ScalarType type = source.scalar_type();
  if (target.scalar_type() != at::kFloat8_e4m3fn || type == at::kFloat8_e4m3fn) {
    return source;
  }
  // The CPU does not clamp 8-bit floats, and an integer dtype may not represent the limit.
  const bool clampable = at::isFloatingType(type) && !at::isFloat8Type(type);
  return at::clamp(clampable ? source : source.to(at::kFloat), -largest_e4m3(), largest_e4m3());
}

}  // namespace hpu_reference::kernels
