// Checks of the tensors of hccl collectives, with the messages that programs expect of hccl, and the CPU
// tensors that gloo receives.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <vector>

namespace hpu_reference::distributed {

using Tensors = std::vector<at::Tensor>;

// Checks one tensor. Like the other checks, throws ValueError or TypeError with a message that names the
// problem.
void check_tensor(const at::Tensor& tensor);
// Checks each tensor, and that the tensors match each other.
void check_tensors(const Tensors& tensors);
// Checks that the list has one tensor, and returns it.
const at::Tensor& check_single(const Tensors& tensors);
// Checks that `lists` has one list of `count` tensors that match `like`.
void check_list(const std::vector<Tensors>& lists, std::size_t count, const at::Tensor& like);
// Checks that the root is a rank of the group.
void check_root(std::int64_t root, int size);
// Checks that `large` has `times` times as many elements as `small`. `rule` is the sentence with which the
// error message begins.
void check_sizes(const at::Tensor& large, const at::Tensor& small, int times, const char* rule);
// Checks that the splits, one per rank, add up to the size of dimension 0.
void check_splits(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& splits,
                  int size,
                  const char* of);

// Returns a CPU tensor over the bytes of a device tensor. The device tensor must outlive the CPU tensor.
// 8-bit floats become bytes.
at::Tensor host_alias_of(const at::Tensor& tensor);
// Returns host_alias_of() of each tensor.
Tensors host_aliases_of(const Tensors& tensors);

// Flattens the tensors, because gloo splits dimension 0. A flat tensor contains the ranks' parts one after
// the other, whatever its original shape.
Tensors flattened(const Tensors& tensors);

// A reduction that gloo supports: sums and products of bool become maxima and minima.
struct Reduction {
  c10d::ReduceOp::RedOpType operation;
  bool as_bytes;  // true: gloo reduces the tensors as bytes

  // Returns the tensor that gloo reduces: the host alias, or its bytes if `as_bytes` is true.
  at::Tensor view(const at::Tensor& host) const;
  Tensors view(const Tensors& hosts) const;
};
// Returns the reduction for this operation and dtype. Throws if hccl does not support it.
Reduction reduction_of(const c10d::ReduceOp& operation, at::ScalarType dtype);

}  // namespace hpu_reference::distributed
