// Checks of hccl's tensors, in the words of its contract, and those tensors as gloo sees them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <vector>

namespace hpu_reference::distributed {

using Tensors = std::vector<at::Tensor>;

// Checks one tensor. Like the other checks, throws ValueError or TypeError and names the fault.
void check_tensor(const at::Tensor& tensor);
// Checks each tensor, and that they are alike.
void check_tensors(const Tensors& tensors);
// Checks that there is one tensor, and returns it.
const at::Tensor& check_single(const Tensors& tensors);
// Checks for one list of `count` tensors like `like`.
void check_list(const std::vector<Tensors>& lists, std::size_t count, const at::Tensor& like);
// Checks the root's rank.
void check_root(std::int64_t root, int size);
// Checks that `large` has `times` the elements of `small`; `rule` is the contract's sentence for it.
void check_sizes(const at::Tensor& large, const at::Tensor& small, int times, const char* rule);
// Checks that the splits, one per rank, add up to dimension 0.
void check_splits(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& splits,
                  int size,
                  const char* of);

// Makes a CPU tensor over the bytes of a device tensor, which must outlive it. Eight-bit floats become bytes.
at::Tensor host_of(const at::Tensor& tensor);
// Makes such a tensor for each one.
Tensors hosts_of(const Tensors& tensors);

// Flattens the tensors: the ranks' parts lie one after the other, whatever the shape, and gloo looks for them
// in dimension 0.
Tensors flat(const Tensors& tensors);

// A reduction in gloo's terms: sums and products of bool become maxima and minima.
struct Reduction {
  c10d::ReduceOp::RedOpType operation;
  bool bytes;  // on the bytes of the tensors

  // The host view in the form that the reduction works on.
  at::Tensor view(const at::Tensor& host) const;
  Tensors view(const Tensors& hosts) const;
};
// The reduction for this operation and dtype; throws if hccl has none.
Reduction reduction_of(const c10d::ReduceOp& operation, at::ScalarType dtype);

}  // namespace hpu_reference::distributed
