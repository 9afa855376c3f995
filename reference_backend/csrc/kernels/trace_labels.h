// What the row of a call says in traces.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace hpu_reference::kernels {

// Bytes of the elements of all tensors among `count` values, lists of tensors included.
std::size_t bytes_of(const c10::IValue* values, std::size_t count);

// The name of a copy's row.
const std::string& copy_label(bool from_device, bool to_device);

}  // namespace hpu_reference::kernels
