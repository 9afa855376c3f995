// A group of ranks that share memory: how the ranks find each other, publish their parts, wait for each
// other, and detect that a rank has failed, left or ended.
//
// Each rank has a counter of its steps. All ranks make the same steps in the same order, so that "all ranks
// are at step 7" has the same meaning on each rank.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "distributed/shared_memory.h"

namespace hpu_reference::distributed {

constexpr int kMaxRanks = 64;

// The bytes that a rank sends to another rank.
struct Block {
  std::uint64_t bytes;
  std::uint64_t offset;  // in the sender's device memory, or in its part of the group's own memory
};

// The data that a rank publishes in shared memory about its part in a collective.
struct CollectiveDescription {
  std::uint64_t number;    // number of the collective, counted in its group
  std::int32_t operation;  // c10d::OpType
  std::int32_t dtype;
  std::int32_t reduction;             // c10d::ReduceOp::RedOpType, or -1
  std::int32_t root;                  // rank of the root, or -1
  std::uint32_t list_length;          // number of collectives in the batch that follows, or 0
  std::uint32_t is_in_device_memory;  // 1: the blocks are in device memory; 0: in the group's own memory
  Block sent[kMaxRanks];              // the block that is sent to each rank
  std::uint64_t expected[kMaxRanks];  // number of bytes from each rank

  // Returns true if both ranks call the same collective; their blocks may differ.
  bool is_like(const CollectiveDescription& other) const {
    return number == other.number && operation == other.operation && dtype == other.dtype &&
           reduction == other.reduction && root == other.root && list_length == other.list_length;
  }
};

// The time limit of a rank in one collective, and the callback for a slow collective.
struct WaitLimits {
  std::chrono::steady_clock::time_point start;
  std::chrono::milliseconds timeout;
  std::chrono::milliseconds slow_after;
  std::function<void()> on_slow;  // called once, then empty
};

// The shared memory of one group, as seen by one rank. Collectives use it one at a time; only abort() may be
// called concurrently.
class SharedGroup {
 public:
  // Creates the group together with the other ranks. Returns null, on all ranks alike, if they cannot share
  // memory or sharing is disabled on one of them.
  static std::shared_ptr<SharedGroup> create(c10d::Store& store, int rank, int size);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  int rank() const {
    return rank_;
  }
  int size() const {
    return size_;
  }

  // Returns false once a collective has failed on this rank, or the group was aborted or left.
  bool is_usable() const;
  // Begins the next collective. All ranks must have published their parts of the previous collective.
  // Collectives use two areas in turn, so no rank then still reads the area that this collective uses.
  void begin() {
    collective_number_++;
    description(rank_).number = collective_number_;
  }
  // Publishes this rank's part of the collective, as the next step.
  void publish() {
    advance();
    published_step_ = step_;
    is_latest_checked_ = false;
  }
  // Returns true if this rank need not compare the parts of the latest collective: there was no collective
  // yet, or this rank has reported that the parts differ.
  bool is_latest_checked() const {
    return is_latest_checked_;
  }
  void set_latest_checked() {
    is_latest_checked_ = true;
  }
  // Returns the step in which this rank published its latest part. The other ranks publish their parts in the
  // same step.
  std::uint64_t published_step() const {
    return published_step_;
  }
  // Returns the description of a rank's part in this collective. Other ranks read the description once the
  // rank has made its next step.
  CollectiveDescription& description(int rank) const;
  // Returns true if a part with this many bytes of blocks is small: the rank passes it through the group's
  // own memory. If all ranks read all parts, the limit decreases with the number of ranks.
  bool is_small(std::uint64_t bytes, bool all_read) const;
  // Returns the area of the group's own memory for the part of a rank, if the part is small.
  char* small_part_memory(int rank) const;

  // Makes the next step, which makes this rank's writes visible to the other ranks.
  void advance();
  // Returns the number of steps that this rank has made.
  std::uint64_t step() const {
    return step_;
  }
  // Returns true if all ranks have made `step` steps, now or within a moment.
  bool arrive_within_yield_time(std::uint64_t step) const;
  // Waits until all ranks have made `step` steps. Throws std::runtime_error if a missing rank will not
  // arrive, or if the time limit is exceeded.
  void wait(std::uint64_t step, WaitLimits& limits) const;
  // Returns the rank that has failed, or -1. The memory of a failed rank may have been reused while this rank
  // read it.
  int failed_rank() const;
  // Throws if a rank has failed.
  void require_no_failure() const;

  // Makes the device memory of each rank readable for all ranks. All ranks must make the first call. Returns
  // false, on all ranks alike, if the memory of one rank cannot be shared.
  bool share_device_memory(WaitLimits& limits);
  // Returns the device memory of another rank.
  const char* device_memory(int rank) const {
    return views_[static_cast<std::size_t>(rank)].data();
  }

  // Ends the collective in progress, on this rank and the others, and rejects later collectives.
  void fail();
  // Does the same as fail(). Another thread may call it while a collective is in progress.
  void abort();
  // Announces to the other ranks that this rank joins no further collective.
  void leave();

 private:
  struct State;  // the state of one rank, in shared memory
  struct Control;
  enum class Devices { Unknown, Shared, Not };

  SharedGroup(Mapping memory, int rank, int size);
  static std::uint64_t memory_bytes(int size);
  static std::optional<Mapping> join(c10d::Store& store, int rank, int size);

  Control& control() const;
  State& state(int rank) const;
  bool have_all_made_steps(std::uint64_t step) const;
  void check_other_ranks(std::uint64_t step, WaitLimits& limits) const;
  void set_end_state(std::uint32_t end_state);
  void wake_ranks() const;

  Mapping memory_;
  const int rank_;
  const int size_;
  const std::int64_t owner_;        // process id; a forked child does not have the memory
  std::vector<Process> processes_;  // the processes of all ranks
  std::vector<Mapping> views_;      // mappings of the ranks' device memory
  Devices devices_ = Devices::Unknown;
  std::uint64_t collective_number_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t published_step_ = 0;
  bool is_latest_checked_ = true;
  std::atomic<bool> aborted_{false};
};

}  // namespace hpu_reference::distributed
