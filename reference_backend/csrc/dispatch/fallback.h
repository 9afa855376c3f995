// The CPU fallback: for operators that are not on the device. Copies out, runs, copies back; counted and
// logged.
//
// PT_HPU_PLACE_ON_CPU is the policy: empty allows every operator, "none" forbids all, a comma list allows
// only those named.
#pragma once

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>

#include "kernels/operator_plan.h"

namespace hpu_reference::dispatch {

// Runs one call through the CPU. Throws where the policy forbids it.
void run_fallback(const kernels::OperatorPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack);

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

std::map<std::string, std::int64_t> fallback_counts();
void reset_fallback_counts();
void set_fallback_policy(const std::string& text);

}  // namespace hpu_reference::dispatch
