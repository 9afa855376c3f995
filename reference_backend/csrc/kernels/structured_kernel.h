// The PreparedKernel of an operator that torch implements as a structured kernel.
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/util/SmallVector.h>

#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/prepared_table.h"
#include "torch_release.h"

namespace hpu_reference::kernels {

// An argument of a structured kernel, stored in the type that the kernel takes.
template <class Argument>
struct StoredArgument;

// A constant tensor is copied, so that set() can change its value.
template <>
struct StoredArgument<const at::Tensor&> {
  StoredArgument(const c10::IValue& source, bool is_constant)
      : value(source.toTensor()), constant(is_constant) {
    if (constant) {
      const bool wrapped = value.unsafeGetTensorImpl()->is_wrapped_number();
      value = value.clone();
      if (wrapped) {
        value.unsafeGetTensorImpl()->set_wrapped_number(true);
      }
    }
  }
  const at::Tensor& get() const {
    return value;
  }
  at::Tensor value;
  bool constant;
};

template <>
struct StoredArgument<const at::Scalar&> {
  explicit StoredArgument(const c10::IValue& source, bool = true) : value(source.toScalar()) {
  }
  const at::Scalar& get() const {
    return value;
  }
  at::Scalar value;
};

template <>
struct StoredArgument<at::OptionalIntArrayRef> {
  explicit StoredArgument(const c10::IValue& source, bool = true) : has_values(!source.isNone()) {
    if (has_values) {
      values = source.toIntVector();
    }
  }
  at::OptionalIntArrayRef get() const {
    return has_values ? at::OptionalIntArrayRef(values) : at::OptionalIntArrayRef();
  }
  bool has_values;
  std::vector<std::int64_t> values;
};

template <>
struct StoredArgument<c10::string_view> {
  explicit StoredArgument(const c10::IValue& source, bool = true) : value(source.toStringRef()) {
  }
  c10::string_view get() const {
    return value;
  }
  std::string value;
};

template <>
struct StoredArgument<std::optional<at::ScalarType>> {
  explicit StoredArgument(const c10::IValue& source, bool = true)
      : value(source.toOptional<at::ScalarType>()) {
  }
  std::optional<at::ScalarType> get() const {
    return value;
  }
  std::optional<at::ScalarType> value;
};

template <>
struct StoredArgument<at::ScalarType> {
  explicit StoredArgument(const c10::IValue& source, bool = true) : value(source.toScalarType()) {
  }
  at::ScalarType get() const {
    return value;
  }
  at::ScalarType value;
};

template <class Number>
  requires std::is_arithmetic_v<Number>
struct StoredArgument<Number> {
  explicit StoredArgument(const c10::IValue& source, bool = true) : value(source.to<Number>()) {
  }
  Number get() const {
    return value;
  }
  Number value;
};

// Thrown inside prepare() by a kernel whose result does not match the given result tensor.
struct ResultMismatch {};

template <class Meta>
struct Signature;

template <class Class, class... Arguments>
struct Signature<void (Class::*)(Arguments...)> {
  using Values = std::tuple<StoredArgument<Arguments>...>;
  template <std::size_t... Positions>
  static Values values(const std::vector<c10::IValue>& source,
                       const std::vector<bool>& constant,
                       std::index_sequence<Positions...>) {
    return Values(StoredArgument<Arguments>(source[Positions], constant[Positions])...);
  }
  static Values values(const std::vector<c10::IValue>& source, const std::vector<bool>& constant) {
    return values(source, constant, std::index_sequence_for<Arguments...>());
  }
};

template <class Operator>
class StructuredKernel final : public PreparedKernel {
  static constexpr bool kIterates = std::is_base_of_v<at::TensorIteratorBase, Operator>;
  using Arguments = Signature<decltype(&Operator::meta)>;

 public:
  static std::unique_ptr<PreparedKernel> prepare(const std::vector<c10::IValue>& arguments,
                                                 const std::vector<bool>& constant,
                                                 const at::Tensor& result) {
    auto kernel = std::make_unique<StructuredKernel>(arguments, constant, result);
    try {
      std::apply([&](const auto&... stored) { kernel->operator_.meta(stored.get()...); }, kernel->values_);
    } catch (const ResultMismatch&) {
      return nullptr;
    }
    return kernel->find_operands() ? std::move(kernel) : nullptr;
  }

  StructuredKernel(const std::vector<c10::IValue>& arguments,
                   const std::vector<bool>& constant,
                   const at::Tensor& result)
      : values_(Arguments::values(arguments, constant)), operator_(result) {
  }

  bool set(std::size_t argument, const c10::IValue& value) override {
    return set(argument, value, std::make_index_sequence<std::tuple_size_v<typename Arguments::Values>>());
  }

  void run() override {
    if constexpr (kIterates) {
      for (const Operand& operand : operands_) {
        operator_.operand(operand.position).data = operand.data();
      }
    }
    std::apply([&](const auto&... stored) { operator_.impl(stored.get()..., operator_.result()); }, values_);
  }

  bool is_intact() const override {
    if constexpr (kIterates) {
      return operator_.ntensors() == tensors_;
    }
    return true;
  }

 private:
  // The structured kernel, which writes to a given result tensor instead of creating one.
  class WithResult final : public Operator {
   public:
    explicit WithResult(const at::Tensor& result) : result_(result) {
    }
    const at::Tensor& result() const {
      return result_;
    }
    void set_output_strided(std::int64_t index,
                            at::IntArrayRef sizes,
                            at::IntArrayRef strides,
                            at::TensorOptions options HPU_NAMES_PARAMETER) override {
      if (!strides.empty() && strides != result_.strides()) {
        throw ResultMismatch();
      }
      set_output_raw_strided(index, sizes, strides, options HPU_NAMES_ARGUMENT);
    }
    void set_output_raw_strided(std::int64_t index,
                                at::IntArrayRef sizes,
                                at::IntArrayRef strides,
                                at::TensorOptions options HPU_NAMES_PARAMETER) override {
      if (index != 0 || sizes != result_.sizes() ||
          c10::typeMetaToScalarType(options.dtype()) != result_.scalar_type()) {
        throw ResultMismatch();
      }
      if constexpr (kIterates) {
        Operator::set_output_raw_strided(index, sizes, strides, options HPU_NAMES_ARGUMENT);
      }
    }
    const at::Tensor& maybe_get_output(std::int64_t) override {
      return result_;
    }
    at::OperandInfo& operand(int position)
      requires kIterates
    {
      return this->operands_[static_cast<std::size_t>(position)];
    }

   private:
    at::Tensor result_;
  };

  // An operand of the iterator that is one of the kernel's tensors.
  struct Operand {
    int position;
    const at::Tensor* tensor;
    void* data() const {
      c10::TensorImpl* impl = tensor->unsafeGetTensorImpl();
      return static_cast<char*>(const_cast<void*>(impl->unsafe_storage().data())) +
             impl->storage_offset() * static_cast<std::int64_t>(impl->itemsize());
    }
  };
  // Finds the kernel's tensors among the iterator's operands. Returns false if the iterator converted the
  // memory of a tensor: the operand would keep old values.
  bool find_operands() {
    if constexpr (kIterates) {
      tensors_ = operator_.ntensors();
      for (int position = 0; position < tensors_; position++) {
        const at::OperandInfo& operand = operator_.operand(position);
        if (operand.tensor_base().is_same(operator_.result())) {
          operands_.push_back({position, &operator_.result()});
          continue;
        }
        if (operator_.is_cpu_scalar(position) && c10::isReducedFloatingType(operand.current_dtype)) {
          return false;  // such a kernel would remove the operand from the iterator
        }
        const bool converted = operand.original_tensor_base().defined();
        const at::TensorBase& source = converted ? operand.original_tensor_base() : operand.tensor_base();
        const auto* stored = stored_argument_of(source);
        if (stored == nullptr) {
          // The operator's meta() made this tensor. Accept the tensor only if meta() made it from a number: a
          // tensor that was made from the values of another tensor would keep old values.
          if (!source.unsafeGetTensorImpl()->is_wrapped_number()) {
            return false;
          }
          has_operand_from_number_ = true;
        } else if (!converted) {
          operands_.push_back({position, &stored->value});
        } else if (stored->constant) {
          converted_.push_back({position, &stored->value});
        } else {
          return false;
        }
      }
    }
    return true;
  }

  // Returns the argument that is this tensor, or nullptr if `meta` made the tensor.
  const StoredArgument<const at::Tensor&>* stored_argument_of(const at::TensorBase& base) const {
    const StoredArgument<const at::Tensor&>* match = nullptr;
    const auto compare = [&](const auto& stored) {
      if constexpr (std::is_same_v<std::decay_t<decltype(stored)>, StoredArgument<const at::Tensor&>>) {
        if (base.is_same(stored.value)) {
          match = &stored;
        }
      }
    };
    std::apply([&](const auto&... stored) { (compare(stored), ...); }, values_);
    return match;
  }

  template <std::size_t... Positions>
  bool set(std::size_t argument, const c10::IValue& value, std::index_sequence<Positions...>) {
    return (... || (Positions == argument && set_argument(std::get<Positions>(values_), value)));
  }

  template <class Value>
  bool set_argument(Value& stored, const c10::IValue& value) {
    if constexpr (std::is_same_v<Value, StoredArgument<const at::Tensor&>>) {
      return stored.constant && set_tensor(stored.value, value.toTensor());
    } else {
      stored = Value(value);
      return !has_operand_from_number_;
    }
  }

  // Copies a value into a 0-dim tensor. The tensor object stays, because the iterator refers to it.
  bool set_tensor(const at::Tensor& stored, const at::Tensor& value) {
    if (value.scalar_type() != stored.scalar_type() || value.is_conj() || value.is_neg()) {
      return false;
    }
    std::memcpy(stored.mutable_data_ptr(), value.const_data_ptr(), stored.itemsize());
    if constexpr (kIterates) {
      for (const Operand& constant_operand : converted_) {
        if (constant_operand.tensor == &stored) {
          const at::OperandInfo& operand = operator_.operand(constant_operand.position);
          if (value.scalar_type() != at::kDouble || operand.current_dtype != at::kFloat) {
            return false;
          }
          *static_cast<float*>(operand.data) = static_cast<float>(*value.const_data_ptr<double>());
        }
      }
    }
    return true;
  }

  typename Arguments::Values values_;
  WithResult operator_;
  int tensors_ = 0;
  c10::SmallVector<Operand, 4> operands_;
  c10::SmallVector<Operand, 1> converted_;  // constants that the iterator converted to the compute dtype
  bool has_operand_from_number_ = false;    // an operand was made from a number
};

}  // namespace hpu_reference::kernels
