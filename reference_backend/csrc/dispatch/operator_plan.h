// What the boxed kernels must know of an operator, read once from its schema.
#pragma once

#include <ATen/core/function_schema.h>

#include <string>
#include <vector>

namespace hpu_reference::dispatch {

struct OperatorPlan {
  explicit OperatorPlan(const c10::FunctionSchema& schema);

  std::string name;           // "aten::add.Tensor"
  std::vector<bool> written;  // one per argument
  std::size_t arguments = 0;
  std::size_t returns = 0;
  int generator = -1;  // position of the generator argument, or -1
  bool returns_tensors = false;
  std::vector<bool> cpu_allowed;  // one per argument: may be a CPU tensor of one or more dimensions
  bool dense_inputs = false;      // the CPU's kernel reads beyond an expanded input
  bool grows_storage = false;     // resize_()
};

}  // namespace hpu_reference::dispatch
