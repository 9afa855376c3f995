// What hccl takes, in the words of its contract, and its tensors as gloo sees them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <vector>

namespace hpu_reference::distributed {

using Tensors = std::vector<at::Tensor>;

// Throw ValueError or TypeError, naming what is wrong.
void check_tensor(const at::Tensor& tensor);
void check_tensors(const Tensors& tensors);
const at::Tensor& check_single(const Tensors& tensors);
// One list of `count` tensors like `like`.
void check_list(const std::vector<Tensors>& lists, std::size_t count, const at::Tensor& like);
void check_root(std::int64_t root, int size);
// `large` has `times` the elements of `small`; `rule` is the contract's sentence for it.
void check_sizes(const at::Tensor& large, const at::Tensor& small, int times, const char* rule);
void check_splits(const at::Tensor& tensor,
                  const std::vector<std::int64_t>& splits,
                  int size,
                  const char* of);

// A CPU tensor over the bytes of a device tensor; it does not keep them. Eight-bit floats are carried as
// bytes.
at::Tensor host_of(const at::Tensor& tensor);
Tensors hosts_of(const Tensors& tensors);

// As vectors: the ranks' parts lie one after the other, whatever the shape, and gloo looks for
// them in dimension 0.
Tensors flat(const Tensors& tensors);

// A reduction as gloo is to do it: sums and products of bool are the largest and the smallest.
struct Reduction {
  c10d::ReduceOp::RedOpType operation;
  bool bytes;  // on the bytes of the tensors

  at::Tensor view(const at::Tensor& host) const;
  Tensors view(const Tensors& hosts) const;
};
Reduction reduction_of(const c10d::ReduceOp& operation, at::ScalarType dtype);

}  // namespace hpu_reference::distributed
