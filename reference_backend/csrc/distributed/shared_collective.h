// One collective in the memory that a group's ranks share. Each rank has a block of bytes for each rank,
// which may be empty. The receiving rank copies the blocks of all ranks, or reduces them.
//
// At │all│, each rank waits until all ranks have come this far:
//
//   small: each rank copies its blocks into the group's memory │all│ each rank reads the blocks sent to it
//   large: each rank publishes the locations of its blocks │all│ each rank reads the blocks sent to it
//          from the other ranks' device memory │all│
//
// In a collective with a root, a rank that needs no blocks of other ranks does not wait for the other ranks
// if its own blocks are small.
//
// An all-reduce works in place. If it is large, each rank reduces its share of every chunk, and copies the
// other shares of the chunk before from the device memory of the other ranks.
//
// A rank writes only its own device memory. Results that overlap a block that is still to be read are written
// at the end. A rank that aborts announces the abort before it reuses its memory. The other ranks check for
// an abort before they use the data that they have read.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "distributed/shared_group.h"

namespace hpu_reference::distributed {

// The tensors of this rank in a collective: contiguous host aliases of device tensors. An undefined tensor
// represents a tensor without elements.
struct CollectiveTensors {
  c10d::OpType operation;
  std::optional<std::int64_t> root = std::nullopt;
  std::optional<c10d::ReduceOp::RedOpType> reduction = std::nullopt;
  std::vector<at::Tensor> sent = {};      // for each rank, in the order of ranks; empty: nothing is sent
  std::vector<at::Tensor> received = {};  // from each rank, in the order of ranks; empty: nothing is received
  at::Tensor reduced = {};                // the result of a reduction, instead of `received`
  std::uint32_t list_length = 0;          // number of collectives in the batch that this call precedes, or 0
};

// The error of ranks that call different collectives. Each rank that waits for another rank throws it, and
// the group remains usable. If no rank waits, each rank throws it in its next collective.
class DifferentCollectives final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One collective of this rank. One thread may begin the collective and another thread may finish it.
class SharedCollective {
 public:
  SharedCollective(std::shared_ptr<SharedGroup> group,
                   CollectiveTensors tensors,
                   std::chrono::milliseconds timeout);

  // Returns true if the blocks of this rank are small, so that the thread that issues the collective may try
  // to carry it out.
  bool is_small() const {
    return is_small_;
  }
  // Publishes this rank's blocks and waits for a moment. Returns true if the collective is then complete.
  // Never throws: finish() reports errors.
  bool try_at_once() noexcept;
  // Completes the collective. Calls `on_slow` once if the collective takes longer than `slow_after`. Returns
  // false, on all ranks alike, if gloo must carry out the collective. Throws std::runtime_error if the
  // collective fails.
  bool finish(std::chrono::milliseconds slow_after, std::function<void()> on_slow);
  // Completes several collectives, one after the other. Returns false, on all ranks alike, if gloo must carry
  // out all of them.
  static bool finish_all(const std::vector<std::shared_ptr<SharedCollective>>& collectives,
                         std::chrono::milliseconds slow_after,
                         const std::function<void()>& on_slow);

 private:
  void publish();
  bool writes_into_sent_blocks() const;
  at::Tensor tensor_for(int rank) const;
  std::uint64_t bytes_from(int rank) const;
  bool are_descriptions_consistent() const;
  bool was_latest_consistent() const;
  std::string describe_difference() const;
  bool is_any_in_device_memory() const;
  const char* block_from(int rank) const;
  at::Tensor target_of_result(const at::Tensor& result);
  void receive();
  void copy_staged_results();
  void all_reduce_in_chunks(WaitLimits& limits);

  const std::shared_ptr<SharedGroup> group_;
  const CollectiveTensors tensors_;
  const std::chrono::milliseconds timeout_;
  c10::ScalarType dtype_ = c10::ScalarType::Byte;
  bool is_small_ = false;
  bool is_staged_ = false;  // the results are written to temporary tensors first
  std::vector<std::pair<at::Tensor, at::Tensor>> staged_;
  bool is_published_ = false;
  std::chrono::steady_clock::time_point start_;  // unset until the first attempt
};

}  // namespace hpu_reference::distributed
