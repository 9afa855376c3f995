#include <cstring>

#include "kernels/prepared_table.h"

namespace hpu_reference::kernels {

namespace {

char* data_of(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return static_cast<char*>(const_cast<void*>(impl->unsafe_storage().data())) +
         impl->storage_offset() * static_cast<std::int64_t>(impl->itemsize());
}

// Copies a dense tensor to a tensor of the same dtype and strides, or fills the tensor with zeros if no
// source exists.
class BytesKernel final : public PreparedKernel {
 public:
  BytesKernel(const at::Tensor& source, const at::Tensor& result)
      : source_(source), result_(result), bytes_(result.nbytes()) {
  }
  bool set(std::size_t, const c10::IValue&) override {
    return false;
  }
  void run() override {
    if (source_.defined()) {
      std::memmove(data_of(result_), data_of(source_), bytes_);
    } else {
      std::memset(data_of(result_), 0, bytes_);
    }
  }
  bool is_intact() const override {
    return true;
  }

 private:
  at::Tensor source_;
  at::Tensor result_;
  std::size_t bytes_;
};

std::unique_ptr<PreparedKernel> prepare_bytes(const at::Tensor& source, const at::Tensor& result) {
  const bool same = source.scalar_type() == result.scalar_type() && source.sizes() == result.sizes() &&
                    source.strides() == result.strides();
  return same ? std::make_unique<BytesKernel>(source, result) : nullptr;
}

std::unique_ptr<PreparedKernel> prepare_copy(const std::vector<c10::IValue>& arguments,
                                             const std::vector<bool>&,
                                             const at::Tensor& result) {
  return prepare_bytes(arguments[1].toTensor(), result);
}

std::unique_ptr<PreparedKernel> prepare_clone(const std::vector<c10::IValue>& arguments,
                                              const std::vector<bool>&,
                                              const at::Tensor& result) {
  return prepare_bytes(arguments[0].toTensor(), result);
}

std::unique_ptr<PreparedKernel> prepare_zero(const std::vector<c10::IValue>&,
                                             const std::vector<bool>&,
                                             const at::Tensor& result) {
  return std::make_unique<BytesKernel>(at::Tensor(), result);
}

}  // namespace

const PreparedTable& prepared_copy_kernels() {
  static const auto* table = new PreparedTable{
      {"aten::copy_", &prepare_copy},
      {"aten::clone", &prepare_clone},
      {"aten::zero_", &prepare_zero},
  };
  return *table;
}

}  // namespace hpu_reference::kernels
