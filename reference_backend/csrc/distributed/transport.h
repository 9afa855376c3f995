// Collectives of gloo's that releases of torch before 2.13 lack or get wrong, made of others there.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distributed/checks.h"

namespace hpu_reference::distributed::transport {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// All tensors are host views; a list has a tensor for each rank.
WorkPtr reduce_scatter(c10d::Backend& gloo,
                       Tensors& to,
                       std::vector<Tensors>& from,
                       const c10d::ReduceScatterOptions& options);
WorkPtr reduce_scatter_base(c10d::Backend& gloo,
                            at::Tensor& to,
                            at::Tensor& from,
                            const c10d::ReduceScatterOptions& options);
WorkPtr alltoall(c10d::Backend& gloo, Tensors& to, Tensors& from, const c10d::AllToAllOptions& options);

}  // namespace hpu_reference::distributed::transport
