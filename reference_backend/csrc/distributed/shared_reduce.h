// One all-reduce in the memory that a group's ranks share.
//
//   small: each rank copies its part into the group's memory │all│ each rank reduces all parts by itself
//   large: each rank publishes the location of its part │all│ each rank reduces its share of every chunk,
//          in place, and copies the other shares from the others' device memory, one chunk behind │all│
//
// A rank writes only its own device memory, and reads the memory of other ranks while they wait. A rank that
// aborts announces this before it reuses its memory, and the other ranks check for that before they use the
// data they read.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <functional>
#include <memory>

#include "distributed/shared_group.h"

namespace hpu_reference::distributed {

// The all-reduce. One thread may begin it and another may finish it.
class SharedReduce {
 public:
  // `host` is the contiguous host alias of a device tensor.
  SharedReduce(std::shared_ptr<SharedGroup> group,
               at::Tensor host,
               c10d::ReduceOp::RedOpType operation,
               std::chrono::milliseconds timeout);

  // Returns true if the parts are small, so that the thread that issues the collective may carry it out.
  bool is_small() const {
    return group_->is_small(bytes_);
  }
  // Publishes this rank's part and waits for a moment. Returns true if that completed the collective. Never
  // throws: finish() reports errors.
  bool attempt() noexcept;
  // Completes the collective. Calls `on_slow` once if that takes longer than `slow_after`. Returns false, on
  // all ranks alike, if gloo must carry out the collective. Throws std::runtime_error if the collective
  // fails.
  bool finish(std::chrono::milliseconds slow_after, std::function<void()> on_slow);

 private:
  void publish_part();
  bool are_alike() const;
  void require_alike() const;
  void reduce_small();
  void reduce_large(WaitLimits& limits);

  const std::shared_ptr<SharedGroup> group_;
  const at::Tensor host_;
  const c10d::ReduceOp::RedOpType operation_;
  const std::chrono::milliseconds timeout_;
  const std::uint64_t bytes_;
  bool part_published_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace hpu_reference::distributed
