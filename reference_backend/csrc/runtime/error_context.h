// Errors of queued work, extended by the name of the work that failed.
#pragma once

#include <exception>
#include <string>

namespace hpu_reference::runtime {

// Returns a copy of the error that also names the operator that caused it and its queue. The copy has the
// same class if the error is a torch error. A copy is needed because several queues may share one error.
std::exception_ptr add_origin_to_error(std::exception_ptr error, const std::string& name, int queue);

}  // namespace hpu_reference::runtime
