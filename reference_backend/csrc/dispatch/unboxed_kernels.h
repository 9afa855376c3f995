// The operators that have an unboxed front door.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace hpu_reference::dispatch {

// Makes the unboxed kernel of an operator; none if it has only the boxed one.
std::optional<c10::KernelFunction> unboxed_kernel(const c10::OperatorHandle& op);

}  // namespace hpu_reference::dispatch
