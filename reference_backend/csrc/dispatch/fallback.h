// The CPU fallback for operators that the device does not have. It copies the arguments to the CPU, runs the
// operator and copies the results back. Each fallback is counted and logged.
//
// PT_HPU_PLACE_ON_CPU is the policy: an empty value allows every operator, "none" forbids all, and a
// comma-separated list allows only the listed operators. A listed operator runs on the CPU instead of on the
// device, unless the device registers its own kernel for it (see kernel_table.cpp).
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>

#include "kernels/operator_plan.h"

namespace hpu_reference::dispatch {

// Runs one call on the CPU. Throws if the policy forbids it.
void run_fallback(const kernels::OperatorPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The kernel of an operator that the user has placed on the CPU.
class FallbackKernel final : public c10::OperatorKernel {
 public:
  explicit FallbackKernel(const c10::OperatorHandle& op) : plan_(op) {
  }
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    run_fallback(plan_, op, stack);
  }

 private:
  kernels::OperatorPlan plan_;
};

// Returns the number of fallbacks of each operator since the last reset.
std::map<std::string, std::int64_t> fallback_counts();
// Resets the numbers of fallback_counts().
void reset_fallback_counts();
// Replaces the policy. `text` has the format of PT_HPU_PLACE_ON_CPU.
void set_fallback_policy(const std::string& text);

}  // namespace hpu_reference::dispatch
