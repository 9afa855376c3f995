#include "kernels/trace_labels.h"

#include <ATen/core/Tensor.h>

namespace hpu_reference::kernels {

namespace {

std::size_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && tensor.layout() == at::kStrided ? tensor.nbytes() : 0;
  }
  std::size_t bytes = 0;
  if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) {
      bytes += bytes_of(item);
    }
  }
  return bytes;
}

}  // namespace

std::size_t bytes_of(const c10::IValue* values, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; i++) {
    bytes += bytes_of(values[i]);
  }
  return bytes;
}

const std::string& copy_label(bool from_device, bool to_device) {
  static const std::string to = "aten::copy_ (host to device)";
  static const std::string from = "aten::copy_ (device to host)";
  static const std::string within = "aten::copy_ (device to device)";
  return !from_device ? to : to_device ? within : from;
}

}  // namespace hpu_reference::kernels
