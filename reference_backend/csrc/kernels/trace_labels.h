// The labels of the rows of a profiler trace: the bytes of a call's tensors, and the names of copies.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace hpu_reference::kernels {

// Returns the bytes of the elements of all tensors among `count` values, including tensors in lists.
std::size_t bytes_of(const c10::IValue* values, std::size_t count);

// Returns the name of a copy's trace row.
const std::string& copy_label(bool from_device, bool to_device);

}  // namespace hpu_reference::kernels
