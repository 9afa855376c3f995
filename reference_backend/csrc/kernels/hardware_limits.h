// Hardware limits that the device can imitate, so that programs can be tested against the limits without the
// hardware. Off by default. HPU_REFERENCE_PROFILE=gaudi2 or gaudi3 enables them for the process.
//
//   float64 has the values of float32. int64 has the values of int32 unless 64 bits are enabled. Complex
//   dtypes are rejected. float8_e4m3fn saturates at the hardware's largest number. gelu uses tanh.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// True if hardware limits are enabled for the process.
extern const bool g_has_hardware_limits;
inline bool has_hardware_limits() {
  return g_has_hardware_limits;
}

// Returns the largest finite number of float8_e4m3fn: 240 on gaudi2, otherwise 448.
double largest_e4m3();

// Enables or disables 64 bits of int64 (PT_ENABLE_INT64_SUPPORT). Disabled at start.
void set_wide_integers(bool on);
// Enables or disables the range check of values that come from the host
// (PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK).
void set_range_check(bool on);
// If `on` is true, gelu always uses the tanh formula, whatever the caller's argument
// (PT_HPU_FORCE_TANH_FOR_GELU). Enabled at start.
void set_tanh_gelu(bool on);
bool forces_tanh_gelu();

// Throws if the hardware does not have the dtype.
void check_dtype(at::ScalarType dtype);

// Rounds the elements of a host tensor to values that the hardware has, in place. Idempotent.
void round_to_hardware(const at::Tensor& host);
// Applies round_to_hardware() to the host tensors that a kernel has returned or written.
void round_results_to_hardware(const OperatorPlan& plan,
                               const std::vector<c10::IValue>& arguments,
                               const c10::IValue* results);

// Returns the source of a copy into `target`, rounded to values that the hardware has. Throws if the source
// comes from the host and has a value that `target` cannot represent.
at::Tensor round_source_to_hardware(const at::Tensor& target, const at::Tensor& source);

}  // namespace hpu_reference::kernels
