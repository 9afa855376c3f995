// One all-reduce in the memory that a group's ranks share.
//
//   small: each rank copies its part into the group's memory │all│ each reduces all of it by itself
//   large: each rank says where its part is │all│ each reduces its share of every chunk, in place, and copies
//          the others' shares from their device memory, a chunk behind │all│
//
// A rank writes its own device memory only, and reads that of the others while they wait: one that gives up
// says so before it uses its memory again, and the others look for that before they believe what they read.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <functional>
#include <memory>

#include "distributed/shared_group.h"

namespace hpu_reference::distributed {

// The collective, begun on one thread and perhaps ended on another.
class SharedReduce {
 public:
  // `host` is the host view of a device tensor, contiguous.
  SharedReduce(std::shared_ptr<SharedGroup> group,
               at::Tensor host,
               c10d::ReduceOp::RedOpType operation,
               std::chrono::milliseconds timeout);

  // True if the collective may be done by the thread that issues it.
  bool is_small() const {
    return group_->is_small(bytes_);
  }
  // Brings this rank's part and waits for a moment; true if that was enough to complete it. Never throws:
  // what is wrong is found by finish().
  bool attempt() noexcept;
  // Completes the collective, and calls `on_slow` once if that takes longer than `slow_after`; false if gloo
  // has to do it, on all ranks. Throws std::runtime_error.
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
