// The operators that have an unboxed entry kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace hpu_reference::dispatch {

// Returns the unboxed kernel of an operator, or nothing if the operator has only the boxed kernel.
std::optional<c10::KernelFunction> unboxed_kernel(const c10::OperatorHandle& op);

}  // namespace hpu_reference::dispatch
