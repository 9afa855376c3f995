// The operators whose kernels can be prepared, by name. They are torch's structured kernels: `meta` checks
// the arguments and builds the iterator, `impl` computes, and a subclass provides the result.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/prepared_kernel.h"

namespace hpu_reference::kernels {

// Prepares one operator's kernel. Returns nullptr if the arguments do not allow it.
using PrepareFunction = std::unique_ptr<PreparedKernel> (*)(const std::vector<c10::IValue>& arguments,
                                                            const std::vector<bool>& constant,
                                                            const at::Tensor& result);
using PreparedTable = std::vector<std::pair<std::string, PrepareFunction>>;

// Returns the table of pointwise operators with one tensor argument, and of their gradients.
const PreparedTable& prepared_unary_kernels();
// Returns the table of pointwise operators with several tensor arguments, comparisons, reductions and matrix
// products.
const PreparedTable& prepared_binary_kernels();
// Returns the table of copies and zero fills.
const PreparedTable& prepared_copy_kernels();

}  // namespace hpu_reference::kernels
