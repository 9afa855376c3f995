// Factories, copies and views.
#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "tiny.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <cstring>

namespace tiny {
namespace {

using at::Tensor;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(at::IntArrayRef size,
             std::optional<at::ScalarType> dtype,
             std::optional<at::Layout> layout,
             std::optional<at::Device> device,
             std::optional<bool> pinned,
             std::optional<at::MemoryFormat> format) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(at::kStrided) == at::kStrided, "tiny: layout ", *layout, " is not implemented");
  TORCH_CHECK(!pinned.value_or(false), "tiny: only CPU memory can be pinned");
  TORCH_CHECK(!device || device->index() <= 0, "tiny has one device, number 0; ", *device, " does not exist");
  return at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef size,
                     at::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout> layout,
                     std::optional<at::Device> device,
                     std::optional<bool> pinned) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(at::kStrided) == at::kStrided, "tiny: layout ", *layout, " is not implemented");
  TORCH_CHECK(!pinned.value_or(false), "tiny: only CPU memory can be pinned");
  TORCH_CHECK(!device || device->index() <= 0, "tiny has one device, number 0; ", *device, " does not exist");
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype));
}

void copy_negated(at::TensorIterator& iterator, at::ScalarType to, at::ScalarType from) {
  dispatch_dtype(from, "copy_", [&](auto type) {
    using T = decltype(type);
    iterator.serial_for_each(
        [&](char** data, const int64_t* strides, int64_t n) {
          char *out = to_host_address(data[0]), *in = to_host_address(data[1]);
          for (int64_t i = 0; i < n; ++i) {
            store<T>(out + i * strides[0], to, static_cast<T>(-*reinterpret_cast<T*>(in + i * strides[1])));
          }
        },
        {0, iterator.numel()});
  });
}

// Copies the elements of `source` to `target`, which may have other strides, and another device and dtype.
// The source is broadcast.
Tensor copy_from(const Tensor& source, const Tensor& target, bool) {
  auto iterator = at::TensorIteratorConfig()
                      .add_output(target)
                      .add_const_input(source)
                      .resize_outputs(false)
                      .check_all_same_dtype(false)
                      .check_all_same_device(false)
                      .build();
  if (iterator.numel() == 0) {
    return target;
  }
  if (source.is_neg() != target.is_neg() || source.is_conj() != target.is_conj()) {
    // One tensor is a lazy negative or conjugate view, so copying its bytes would not copy its values.
    TORCH_CHECK_NOT_IMPLEMENTED(source.is_conj() == target.is_conj(),
                                "tiny: copying conjugate views is not implemented");
    copy_negated(iterator, target.scalar_type(), source.scalar_type());
    return target;
  }
  const auto to = target.scalar_type(), from = source.scalar_type();
  const auto bytes = target.element_size();
  if (to == from) {
    iterator.serial_for_each(
        [&](char** data, const int64_t* strides, int64_t n) {
          char *out = to_host_address(data[0]), *in = to_host_address(data[1]);
          for (int64_t i = 0; i < n; ++i) {
            std::memcpy(out + i * strides[0], in + i * strides[1], bytes);
          }
        },
        {0, iterator.numel()});
    return target;
  }
  dispatch_dtype(from, "copy_", [&](auto type) {
    using T = decltype(type);
    iterator.serial_for_each(
        [&](char** data, const int64_t* strides, int64_t n) {
          char *out = to_host_address(data[0]), *in = to_host_address(data[1]);
          for (int64_t i = 0; i < n; ++i) {
            store<T>(out + i * strides[0], to, *reinterpret_cast<T*>(in + i * strides[1]));
          }
        },
        {0, iterator.numel()});
  });
  return target;
}

void enlarge_storage(const Tensor& self) {
  const auto& storage = self.storage();
  const size_t needed = self.numel() == 0
                            ? 0
                            : at::detail::computeStorageNbytes(
                                  self.sizes(), self.strides(), self.element_size(), self.storage_offset());
  if (needed > storage.nbytes()) {
    auto fresh = allocator()->allocate(needed);
    if (storage.nbytes() > 0) {
      allocator()->copy_data(fresh.mutable_get(), storage.data(), storage.nbytes());
    }
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
    storage.unsafeGetStorageImpl()->set_nbytes(needed);
  }
}

const Tensor& resize_(const Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
  }
  if (format) {
    impl->empty_tensor_restride(*format);
  }
  enlarge_storage(self);
  return self;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  resize_(target, source.sizes(), std::nullopt);
  return copy_from(source, target, false);
}

at::Scalar item(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a tensor with ", self.numel(), " elements cannot become a number");
  at::Scalar value;
  const char* address = to_host_address(static_cast<const char*>(self.const_data_ptr()));
  dispatch_dtype(self.scalar_type(), "item", [&](auto type) {
    value = at::Scalar(*reinterpret_cast<const decltype(type)*>(address));
  });
  return value;
}

Tensor& set_storage(
    Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  at::native::checkSetStorage(self, storage, offset, size, stride);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  enlarge_storage(self);
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes() / self.element_size());
  const int64_t one = 1;
  return set_storage(self, storage, 0, count, one);
}

Tensor& set_to_tensor(Tensor& self, const Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_to_empty_storage(Tensor& self) {
  at::Storage storage(
      c10::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), /*resizable=*/true);
  const int64_t none = 0, one = 1;
  return set_storage(self, storage, 0, none, one);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Tensor", set_to_tensor);
  m.impl("set_", set_to_empty_storage);
  if (development_stage() >= 3) {
    m.impl("_local_scalar_dense", item);
    m.impl("unfold", at::native::unfold);
  }
}

// The kernel of _copy_from handles lazy negative and conjugate views itself. With torch's default, torch
// would first materialise a lazy view, which would call this same kernel again.
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  if (development_stage() >= 3) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
}

TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  if (development_stage() >= 3) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace
}  // namespace tiny
