// Limits of hardware that the device can take on, so that programs meet them without the hardware. Off by
// default; HPU_REFERENCE_PROFILE, gaudi2 or gaudi3, turns them on for the process.
//
//   float64 has the values of float32, int64 those of int32 unless 64 bits are on, complex dtypes are
//   refused, float8_e4m3fn saturates at the hardware's largest number, gelu is the one by tanh.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "kernels/operator_plan.h"

namespace hpu_reference::kernels {

// True if the process has a profile.
extern const bool g_has_hardware_limits;
inline bool has_hardware_limits() {
  return g_has_hardware_limits;
}

// Largest finite number of float8_e4m3fn: 240 on gaudi2, otherwise 448.
double largest_e4m3();

// Turns 64 bits of int64 on or off (PT_ENABLE_INT64_SUPPORT); off at start.
void set_wide_integers(bool on);
// Turns the check of values that the host hands over on or off (PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK).
void set_range_check(bool on);
// Turns gelu by tanh, whatever form a caller asks for, on or off (PT_HPU_FORCE_TANH_FOR_GELU); on at start.
void set_tanh_gelu(bool on);
bool forces_tanh();

// Throws if the dtype is one that the hardware has not.
void check_dtype(at::ScalarType dtype);

// Rounds the elements of a host tensor to those that the hardware has, in place. Again changes nothing.
void narrow(const at::Tensor& host);
// Narrows what a kernel has made or written: host tensors.
void narrow_results(const OperatorPlan& plan,
                    const std::vector<c10::IValue>& arguments,
                    const c10::IValue* results);

// Returns the source of a copy into `target` as the hardware sees it. Throws if it comes from the host and
// holds a value that `target` cannot.
at::Tensor narrowed_source(const at::Tensor& target, const at::Tensor& source);

}  // namespace hpu_reference::kernels
