// The ranks of a group that share memory: how they meet, say what they bring, wait for one another, and learn
// that one of them has failed, left or ended.
//
// Each rank has a counter of the steps that it has made. All ranks make the same steps in the same order, so
// that "all are at step 7" means the same to each of them.
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

// What a rank brings to a collective.
struct Part {
  std::uint64_t bytes;
  std::uint64_t offset;  // in the rank's device memory
  std::int32_t dtype;
  std::int32_t operation;

  bool is_like(const Part& other) const {
    return bytes == other.bytes && dtype == other.dtype && operation == other.operation;
  }
};

// How long a rank waits in one collective, and what it does when that takes long.
struct WaitLimits {
  std::chrono::steady_clock::time_point start;
  std::chrono::milliseconds timeout;
  std::chrono::milliseconds slow_after;
  std::function<void()> on_slow;  // called once, then empty
};

// The shared memory of one group, as one rank has it. Collectives use it one at a time; only abort() may be
// called meanwhile.
class SharedGroup {
 public:
  // Meets the other ranks. Null, on all ranks alike, if they cannot share memory or one of them is not to.
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

  // False once a collective has failed here, or the group was aborted or left.
  bool is_usable() const;
  // Begins the next collective: its parts have a place of their own until the one after the next begins.
  void begin() {
    turn_++;
  }
  // What a rank brings to this collective. Others read it once the rank has made its next step.
  Part& part(int rank) const;
  // True if parts of that many bytes are passed through the group's own memory: each rank then reads them
  // all, so the more ranks there are the smaller they have to be.
  bool is_small(std::uint64_t bytes) const {
    return bytes <= small_bytes_;
  }
  // Memory for a rank's small part.
  char* small(int rank) const;

  // Makes the next step: what this rank has written is there for the others.
  void advance();
  // The steps that this rank has made.
  std::uint64_t step() const {
    return step_;
  }
  // True if all ranks have made that many steps, at once or within a moment.
  bool arrive_within_a_moment(std::uint64_t step) const;
  // Returns when all ranks have made that many steps. Throws std::runtime_error if they cannot or do not.
  void wait(std::uint64_t step, WaitLimits& limits) const;
  // The rank that has failed, or -1. Its memory may have been used again while this one read it.
  int failed_rank() const;
  // Throws if there is one.
  void require_no_failure() const;

  // Makes the ranks' device memory readable for all, the first time with all ranks together; false, on all
  // alike, if one of them cannot.
  bool share_devices(WaitLimits& limits);
  // True if that was found to be impossible.
  bool is_device_sharing_impossible() const {
    return devices_ == Devices::Not;
  }
  // Another rank's device memory.
  const char* device(int rank) const {
    return views_[static_cast<std::size_t>(rank)].data();
  }

  // Ends the collective in progress, here and on the others, and refuses later ones.
  void fail();
  // The same from another thread.
  void abort();
  // Says to the others that this rank comes to no other collective.
  void leave();

 private:
  struct State;  // of one rank, in shared memory
  struct Control;
  enum class Devices { Unknown, Shared, Not };

  SharedGroup(Mapping memory, int rank, int size);
  static std::optional<Mapping> join(c10d::Store& store, int rank, int size);

  Control& control() const;
  State& state(int rank) const;
  bool all_at(std::uint64_t step) const;
  void examine(std::uint64_t step, WaitLimits& limits) const;
  void set_end_state(std::uint32_t end_state);
  void wake_ranks() const;

  Mapping memory_;
  const int rank_;
  const int size_;
  const std::uint64_t small_bytes_;
  const std::int64_t owner_;        // the process; a forked child has no such memory
  std::vector<Process> processes_;  // of all ranks
  std::vector<Mapping> views_;      // of their device memory
  Devices devices_ = Devices::Unknown;
  std::uint64_t turn_ = 0;
  std::uint64_t step_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace hpu_reference::distributed
