// Operators that only create or read metadata: factories, views, set_, is_set_to.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "device_key.h"
#include "kernels/hardware_limits.h"
#include "kernels/host_call.h"
#include "memory/allocator.h"
#include "memory/host_storage.h"
#include "runtime/device.h"

namespace hpu_reference::dispatch {

namespace {

at::ScalarType checked_options(std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout,
                               std::optional<at::Device> device,
                               std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided,
              "expected the strided layout for a dense " DEVICE_NAME " tensor, but got ",
              c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
  if (device.has_value()) {
    runtime::checked_index(device->index());
  }
  const at::ScalarType type = c10::dtype_or_default(dtype);
  if (C10_UNLIKELY(kernels::has_hardware_limits())) {
    kernels::check_dtype(type);
  }
  return type;
}

at::Tensor view_as_complex(const at::Tensor& self) {
  if (C10_UNLIKELY(kernels::has_hardware_limits())) {
    kernels::check_dtype(at::kComplexFloat);
  }
  return at::native::view_as_complex(self);
}

at::Tensor filled_if_deterministic(at::TensorBase&& tensor) {
  at::Tensor result(std::move(tensor));
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(result);
  }
  return result;
}

at::Tensor empty_memory_format(at::IntArrayRef size,
                               std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout,
                               std::optional<at::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> memory_format) {
  const auto type = checked_options(dtype, layout, device, pin_memory);
  return filled_if_deterministic(at::detail::empty_generic(size,
                                                           memory::device_allocator(),
                                                           c10::DispatchKeySet(c10::DispatchKey::DEVICE_KEY),
                                                           type,
                                                           memory_format));
}

at::Tensor empty_strided(at::IntArrayRef size,
                         at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout,
                         std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  const auto type = checked_options(dtype, layout, device, pin_memory);
  return filled_if_deterministic(at::detail::empty_strided_generic(
      size, stride, memory::device_allocator(), c10::DispatchKeySet(c10::DispatchKey::DEVICE_KEY), type));
}

c10::DimVector dense_strides(at::IntArrayRef size) {
  c10::DimVector strides(size.size());
  int64_t step = 1;
  for (std::size_t i = size.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(size[i], 1);
  }
  return strides;
}

// Sets contiguous strides if `stride` is not given.
at::Tensor& set_storage_offset(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const auto strides = stride.data() != nullptr ? c10::DimVector(stride) : dense_strides(size);
  const std::size_t needed =
      at::detail::computeStorageNbytes(size, strides, impl->itemsize(), static_cast<std::size_t>(offset));
  // Allocate memory first, so that the tensor is unchanged if the allocation fails.
  if (c10::multiply_integers(size) > 0 && needed > source.nbytes()) {
    memory::resize_storage(source.unsafeGetStorageImpl(), needed);
  }
  if (!impl->unsafe_storage().is_alias_of(source)) {
    impl->set_storage_keep_dtype(source);
  }
  impl->set_sizes_and_strides(size, strides, offset);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_offset(self, std::move(source), 0, elements, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  TORCH_CHECK(kernels::is_device_tensor(source),
              "set_() needs tensors on the same device, but got self on ",
              self.device(),
              " and source on ",
              source.device());
  return at::native::set_tensor_(self, source);
}

const at::Tensor& resize_output(const at::Tensor& self, at::IntArrayRef size, at::Device device) {
  TORCH_CHECK(device.type() == c10::DeviceType::DEVICE_KEY,
              "_resize_output_ resizes a tensor on ",
              self.device(),
              ", but device is ",
              device);
  at::native::resize_output(self, size);
  return self;
}

at::Tensor& set_empty_storage(at::Tensor& self) {
  auto storage =
      c10::Storage(c10::Storage::use_byte_size_t(), 0, memory::device_allocator(), /*resizable=*/true);
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  self.unsafeGetTensorImpl()->set_sizes_contiguous({0});
  self.unsafeGetTensorImpl()->set_storage_offset(0);
  return self;
}

void record_stream(at::Tensor& self, at::Stream stream) {
  memory::device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, DEVICE_KEY, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", view_as_complex);
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_empty_storage);
  m.impl("_resize_output_", resize_output);
  m.impl("record_stream", record_stream);
}

// Quantized tensors have their own view kernels; strided code would lose the quantizer.
TORCH_LIBRARY_IMPL(aten, QUANTIZED_DEVICE_KEY, m) {
  m.impl("as_strided", at::native::as_strided_qtensorimpl);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("set_.source_Storage", set_storage);
  m.impl("record_stream", record_stream);
}

}  // namespace

}  // namespace hpu_reference::dispatch
