// Errors of queued work, with the work that met them.
#pragma once

#include <exception>
#include <string>

namespace hpu_reference::runtime {

// The same error with the operator that caused it and its queue; of the same class, if it is one of torch's.
// A copy: several queues may have one error.
std::exception_ptr with_origin(std::exception_ptr given, const std::string& name, int queue);

}  // namespace hpu_reference::runtime
