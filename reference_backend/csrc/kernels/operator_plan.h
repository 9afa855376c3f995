// Properties of an operator that the boxed kernels need, read once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

namespace hpu_reference::kernels {

// Properties of one operator.
struct OperatorPlan {
  explicit OperatorPlan(const c10::OperatorHandle& op);

  std::string name;           // "aten::add.Tensor"
  std::vector<bool> written;  // per argument: whether the operator writes it
  std::size_t arguments = 0;
  std::size_t returns = 0;
  int generator = -1;  // index of the generator argument, or -1
  bool returns_tensors = false;
  bool makes_results = false;       // the operator writes no argument
  bool copies = false;              // the operator is copy_()
  std::vector<bool> cpu_allowed;    // per argument: may be a CPU tensor of one or more dimensions
  bool needs_dense_inputs = false;  // the CPU kernel reads out of bounds if an input is expanded
  bool resizes_storage = false;     // the operator is resize_()
  int index_argument = -1;          // index of an argument with indices, which may be int32, or -1
  int optional_tensors = -1;        // index of an argument of type Tensor?[], or -1

  // Properties for the engine. The value of a lifted argument does not affect the output metadata.
  std::vector<bool> lifts_scalar;       // per argument: whether a Scalar is lifted
  bool lifts_tensor = false;            // 0-dim floating-point CPU tensors are lifted
  bool writes_out_only = false;         // all written arguments are out= arguments
  bool data_dependent = false;          // the size of the result depends on the data
  int size_argument = -1;               // index of an argument that passes that size, or -1
  bool boolean_indices_depend = false;  // the size depends on the data only if an index is a mask
  enum class Cost { Elements, Product, Convolution } cost = Cost::Elements;

  // Returns true if the size of the result of a call with these arguments depends on the data.
  bool depends_on_data(const c10::IValue* values) const {
    return data_dependent && (size_argument < 0 || values[size_argument].isNone());
  }

  // Gives a list of optional tensors from TorchScript the element type object that torch's dispatcher uses.
  // TorchScript uses a different object for the same type.
  void normalize_lists(c10::IValue* values) const {
    if (C10_UNLIKELY(optional_tensors >= 0)) {
      normalize_optional_tensors(values[optional_tensors]);
    }
  }

  // Number of calls that ran from a queue, a flushed graph or a replay.
  mutable std::atomic<std::int64_t> executed{0};

 private:
  static void normalize_optional_tensors(c10::IValue& value);
};

}  // namespace hpu_reference::kernels
