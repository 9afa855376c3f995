// gloo collectives that releases of torch before 2.13 lack or implement incorrectly, composed of other
// collectives.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distributed/checks.h"

namespace hpu_reference::distributed::gloo_workarounds {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Reduces and scatters. All tensors are host aliases, and a list has one tensor per rank.
WorkPtr reduce_scatter(c10d::Backend& gloo,
                       Tensors& to,
                       std::vector<Tensors>& from,
                       const c10d::ReduceScatterOptions& options);
// Reduces and scatters one tensor that contains the ranks' parts one after the other.
WorkPtr reduce_scatter_base(c10d::Backend& gloo,
                            at::Tensor& to,
                            at::Tensor& from,
                            const c10d::ReduceScatterOptions& options);
// Exchanges one tensor with each rank.
WorkPtr alltoall(c10d::Backend& gloo, Tensors& to, Tensors& from, const c10d::AllToAllOptions& options);

}  // namespace hpu_reference::distributed::gloo_workarounds
