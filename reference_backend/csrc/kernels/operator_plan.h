// Facts about an operator that the boxed kernels need, read once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

namespace hpu_reference::kernels {

// Facts about one operator.
struct OperatorPlan {
  // Reads the operator's schema and tags.
  explicit OperatorPlan(const c10::OperatorHandle& op);

  std::string name;           // "aten::add.Tensor"
  std::vector<bool> written;  // one per argument
  std::size_t arguments = 0;
  std::size_t returns = 0;
  int generator = -1;  // position of the generator argument, or -1
  bool returns_tensors = false;
  bool makes_results = false;     // it writes no argument
  bool copies = false;            // copy_()
  std::vector<bool> cpu_allowed;  // one per argument: may be a CPU tensor of one or more dimensions
  bool dense_inputs = false;      // the CPU's kernel reads beyond an expanded input
  bool resizes_storage = false;     // resize_()
  int index_argument = -1;                // position of an argument of places that may be of 32 bits, or -1

  // Facts for the engine. A lifted argument is one whose value has no influence on the results' metadata.
  std::vector<bool> lifts_scalar;       // one per argument
  bool lifts_tensor = false;            // 0-dim floating-point CPU tensors
  bool writes_out_only = false;         // all that it writes are out= arguments
  bool data_dependent = false;          // the size of its result depends on the data, if the call
  int size_argument = -1;               // does not give it with this argument
  bool boolean_indices_depend = false;  // it does if an index is a mask
  enum class Cost { Elements, Product, Convolution } cost = Cost::Elements;

  // True if the size of the result of a call with these arguments depends on the data.
  bool depends_on_data(const c10::IValue* values) const {
    return data_dependent && (size_argument < 0 || values[size_argument].isNone());
  }

  // Calls that ran from a queue, a flushed graph or a replay.
  mutable std::atomic<std::int64_t> executed{0};
};

}  // namespace hpu_reference::kernels
