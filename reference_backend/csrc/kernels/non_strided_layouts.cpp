#include "kernels/non_strided_layouts.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include "device_key.h"
#include "kernels/tensor_access.h"
#include "memory/allocator.h"
#include "runtime/device.h"

namespace hpu_reference::kernels {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

at::SparseTensorImpl* sparse_impl(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::SparseCsrTensorImpl* compressed_impl(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::QTensorImpl* quantized_impl(const at::Tensor& tensor) {
  return static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
}

bool has_key(const at::Tensor& tensor, DispatchKey key) {
  return tensor.unsafeGetTensorImpl()->key_set().has(key);
}

// Converts a quantizer. Per-channel parameters are tensors, which must be in memory that the kernel can read.
template <class Convert>
at::QuantizerPtr convert_quantizer(const at::QuantizerPtr& quantizer, at::ScalarType dtype, Convert convert) {
  // Only a per-channel quantizer has tensors. Any other quantizer is valid on the host and on the device. The
  // cast replaces a query of the scheme, which fails for an unknown quantizer.
  auto* channels = dynamic_cast<at::PerChannelAffineQuantizer*>(quantizer.get());
  if (channels == nullptr) {
    return quantizer;
  }
  return at::make_per_channel_affine_quantizer(
      convert(channels->scales()), convert(channels->zero_points()), channels->axis(), dtype);
}

// Turns a part of a result into a device tensor. The part has two references that belong to the call: the
// result holds one, and `part` is the other.
template <class Part>
at::Tensor device_part(HostCall& call, Part part) {
  return call.device(std::move(part), /*holders=*/2);
}

at::native::NestedTensorImpl* nested_impl(const at::Tensor& tensor) {
  return static_cast<at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// Returns a copy on the heap. A tensor that stays on the CPU after the kernel must not use device memory,
// which is lost in a fork or when its tensor is destroyed.
at::Tensor copy_to_heap(const at::Tensor& tensor) {
  return memory::arena().contains_host(tensor.storage().data()) ? tensor.clone() : tensor;
}

// A compressed device tensor. It overrides the copy that detach() makes, because torch's code calls the
// constructor that does not support the HPU key.
struct DeviceSparseCsr final : at::SparseCsrTensorImpl {
  DeviceSparseCsr(at::Layout layout, caffe2::TypeMeta dtype)
      : SparseCsrTensorImpl(
            DispatchKeySet(DispatchKey::SparseCsrCPU), c10::Device(c10::DeviceType::CPU), layout, dtype) {
  }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                              bool allow_metadata_change) const override {
    return copy_or_interpret(version, allow_metadata_change);
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                              bool allow_metadata_change) const override {
    return copy_or_interpret(version, allow_metadata_change);
  }

 private:
  c10::intrusive_ptr<c10::TensorImpl> copy_or_interpret(const c10::VariableVersion& version,
                                                        bool allow_metadata_change) const {
    const bool in_python =
        (c10::impl::TorchDispatchModeTLS::stack_len() > 0 || key_set_.has(DispatchKey::Python)) &&
        !c10::impl::tls_is_dispatch_key_excluded(DispatchKey::Python);
    if (in_python) {
      return SparseCsrTensorImpl::shallow_copy_and_detach(version, allow_metadata_change);
    }
    auto copy = c10::make_intrusive<DeviceSparseCsr>(layout_impl(), dtype());
    change_backend(copy.get(), runtime::kDevice);
    copy->set_member_tensors(compressed_indices(), plain_indices(), values(), sizes());
    c10::TensorImpl::copy_tensor_metadata(this, copy.get(), version, allow_metadata_change);
    copy->refresh_numel();
    return copy;
  }
};

}  // namespace

c10::intrusive_ptr<at::SparseCsrTensorImpl> make_compressed(at::Layout layout, caffe2::TypeMeta dtype) {
  auto impl = c10::make_intrusive<DeviceSparseCsr>(layout, dtype);
  change_backend(impl.get(), runtime::kDevice);
  return impl;
}

at::Tensor NonStridedLayouts::host(HostCall& call,
                                   const at::Tensor& tensor,
                                   Access access,
                                   const char* name) {
  const auto convert = [&](const at::Tensor& part) { return call.host(part, access, name); };
  if (has_key(tensor, DispatchKey::SPARSE_DEVICE_KEY)) {
    auto* source = sparse_impl(tensor);
    auto impl =
        c10::make_intrusive<at::SparseTensorImpl>(DispatchKeySet(DispatchKey::SparseCPU), source->dtype());
    impl->raw_resize_(source->sparse_dim(), source->dense_dim(), source->sizes());
    impl->set_indices_and_values_unsafe(convert(source->indices()), convert(source->values()));
    impl->set_coalesced(source->coalesced());
    return at::Tensor(std::move(impl));
  }
  if (has_key(tensor, DispatchKey::SPARSE_CSR_DEVICE_KEY)) {
    auto* source = compressed_impl(tensor);
    auto impl = c10::make_intrusive<at::SparseCsrTensorImpl>(DispatchKeySet(DispatchKey::SparseCsrCPU),
                                                             c10::Device(c10::DeviceType::CPU),
                                                             source->layout(),
                                                             source->dtype());
    impl->set_member_tensors(convert(source->compressed_indices()),
                             convert(source->plain_indices()),
                             convert(source->values()),
                             source->sizes());
    return at::Tensor(std::move(impl));
  }
  if (has_key(tensor, DispatchKey::QUANTIZED_DEVICE_KEY)) {
    auto* source = quantized_impl(tensor);
    auto impl = c10::make_intrusive<at::QTensorImpl>(
        c10::Storage(call.host_storage(source->unsafe_storage().unsafeGetStorageImpl(), access, name)),
        DispatchKeySet(DispatchKey::QuantizedCPU),
        source->dtype(),
        convert_quantizer(source->quantizer(), tensor.scalar_type(), convert));
    impl->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
    return at::Tensor(std::move(impl));
  }
  // The sizes, strides and offsets of the parts are CPU tensors on every device, so they need no host alias.
  auto* source = nested_impl(tensor);
  return at::Tensor(c10::make_intrusive<at::native::NestedTensorImpl>(
      c10::Storage(call.host_storage(source->unsafe_storage().unsafeGetStorageImpl(), access, name)),
      DispatchKeySet({DispatchKey::NestedTensor, DispatchKey::CPU}),
      source->dtype(),
      source->get_nested_sizes(),
      source->get_nested_strides(),
      source->get_storage_offsets()));
}

at::Tensor NonStridedLayouts::device(HostCall& call, at::Tensor&& result) {
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  if (has_key(result, DispatchKey::SparseCPU)) {
    auto* source = sparse_impl(result);
    at::Tensor indices = device_part(call, source->indices());
    at::Tensor values = device_part(call, source->values());
    auto converted = c10::make_intrusive<at::SparseTensorImpl>(DispatchKeySet(DispatchKey::SPARSE_DEVICE_KEY),
                                                               source->dtype());
    converted->raw_resize_(source->sparse_dim(), source->dense_dim(), source->sizes());
    converted->set_indices_and_values_unsafe(indices, values);
    converted->set_coalesced(source->coalesced());
    return at::Tensor(std::move(converted));
  }
  if (has_key(result, DispatchKey::SparseCsrCPU)) {
    auto* source = compressed_impl(result);
    auto converted = make_compressed(source->layout(), source->dtype());
    converted->set_member_tensors(device_part(call, source->compressed_indices()),
                                  device_part(call, source->plain_indices()),
                                  device_part(call, source->values()),
                                  source->sizes());
    return at::Tensor(std::move(converted));
  }
  if (impl->key_set().has(DispatchKey::NestedTensor)) {
    auto* source = nested_impl(result);
    call.adopt_storage_of(impl, impl->unsafe_storage().use_count() > 1);
    return at::Tensor(c10::make_intrusive<at::native::NestedTensorImpl>(
        c10::Storage(impl->unsafe_storage()),
        DispatchKeySet({DispatchKey::NestedTensor, DispatchKey::DEVICE_KEY}),
        source->dtype(),
        copy_to_heap(source->get_nested_sizes()),
        copy_to_heap(source->get_nested_strides()),
        copy_to_heap(source->get_storage_offsets())));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(has_key(result, DispatchKey::QuantizedCPU),
                              "a result of layout ",
                              result.layout(),
                              " is not supported on the " DEVICE_NAME
                              " device; use a strided tensor, or the CPU for this operator");
  call.adopt_storage_of(impl, impl->unsafe_storage().use_count() > 1);
  change_backend(impl, runtime::kDevice);
  auto* self = quantized_impl(result);
  self->set_quantizer_(convert_quantizer(self->quantizer(), result.scalar_type(), [&](at::Tensor part) {
    return device_part(call, std::move(part));
  }));
  return std::move(result);
}

void NonStridedLayouts::write_back(HostCall& call, const at::Tensor& device, const at::Tensor& host) {
  if (has_key(host, DispatchKey::SparseCPU)) {
    auto* source = sparse_impl(host);
    auto* target = sparse_impl(device);
    target->raw_resize_(source->sparse_dim(), source->dense_dim(), source->sizes());
    target->set_indices_and_values_unsafe(device_part(call, source->indices()),
                                          device_part(call, source->values()));
    target->set_coalesced(source->coalesced());
  } else if (has_key(host, DispatchKey::SparseCsrCPU)) {
    auto* source = compressed_impl(host);
    compressed_impl(device)->set_member_tensors(device_part(call, source->compressed_indices()),
                                                device_part(call, source->plain_indices()),
                                                device_part(call, source->values()),
                                                source->sizes());
  } else if (has_key(host, DispatchKey::QuantizedCPU)) {
    quantized_impl(device)->set_quantizer_(
        convert_quantizer(quantized_impl(host)->quantizer(), host.scalar_type(), [&](at::Tensor part) {
          return device_part(call, std::move(part));
        }));
    device.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
}

}  // namespace hpu_reference::kernels
