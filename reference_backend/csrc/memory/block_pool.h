// A coalescing, stream-ordered pool of blocks over the arena. It uses no torch types except the cached host
// storage.
//
// Small sizes come from exact-size bins that are not coalesced until memory runs short. Larger sizes come
// from a best-fit set of free ranges. The process keeps freed pages until empty_cache() or until memory runs
// short.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "memory/arena.h"
#include "memory/shared_statistics.h"
#include "runtime/lock_order.h"
#include "runtime/queue.h"

namespace hpu_reference::memory {

using StreamId = std::int64_t;

// A use of a block by queued work.
struct PendingUse {
  runtime::QueueMark mark;  // reached when the work has run
  bool written;
};

// A range of the arena, free or in use.
struct Block {
  char* device = nullptr;  // address in the device mapping
  std::size_t size = 0;    // bytes, a multiple of the granule
  StreamId stream = 0;     // stream on which it was allocated
  bool in_use = false;
  bool scratch = false;       // memory of a running kernel that is not (yet) a tensor of the user
  Block* previous = nullptr;  // neighbours by address
  Block* next = nullptr;
  std::vector<StreamId> used_on;  // streams named by record_stream
  // Uses by work that may not have run: for each queue the last write and the last use. Guarded by the pool's
  // mutex.
  std::vector<PendingUse> users;
  std::atomic<bool> has_users{false};  // same as !users.empty(), readable without the lock
  std::uint64_t freed_in = 0;          // number of the lazy graph during whose recording it was freed
  // Number of the graph that is being recorded and uses this memory as its buffer `buffer`; 0 if no such
  // graph exists. Reset when the block is freed.
  std::atomic<std::uint64_t> recorded_in{0};
  int buffer = -1;
  std::uint64_t serial = 0;   // number of the allocation, counted by the pool
  bool host_written = false;  // written by a copy from the host ahead of recorded work
  bool ordered = false;       // allocated while its stream still had work that uses the block's freed memory
  // An unused CPU storage over the host mapping of this block. A call takes the storage and returns it
  // afterwards.
  std::atomic<c10::StorageImpl*> host_storage{nullptr};
};

// The use of a block by one piece of work.
struct BlockUse {
  Block* block;
  bool written;
  bool freed = false;  // the tensor was destroyed before the launch; the block may have a new owner
};

// The present state of a block. Addresses are device addresses.
struct BlockState {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  StreamId stream = 0;
  bool in_use = false;   // used by a tensor or a running kernel
  bool pending = false;  // freed, but work may still use it
};

// Counters of the pool; sizes in bytes.
struct PoolStatistics {
  std::int64_t limit = 0;
  std::int64_t in_use = 0;
  std::int64_t scratch = 0;
  std::int64_t max_in_use = 0;
  std::int64_t allocations = 0;  // since the last reset
  std::int64_t frees = 0;
  std::int64_t total_allocations = 0;  // since the last reset of totals
  std::int64_t total_frees = 0;
  std::int64_t bytes_allocated = 0;
  std::int64_t bytes_freed = 0;
  std::int64_t active = 0;
  std::int64_t max_active = 0;
  std::int64_t largest = 0;
  std::int64_t retries = 0;
  std::int64_t out_of_memory = 0;
  std::int64_t largest_free = 0;
  std::int64_t deferred = 0;  // bytes freed by the user that a stream may still use
  std::int64_t ordered = 0;   // bytes freed by the user that only their own stream may reuse so far
  std::int64_t defragmentations = 0;
  std::int64_t defragmentations_succeeded = 0;
};

// Enables or disables the coalescing of small free blocks for an allocation that fits nowhere else. Enabled
// at start.
void set_defragmentation(bool on);

// The pool of blocks. Several threads may call its methods.
class BlockPool {
 public:
  static constexpr std::size_t kGranule = 64;
  static constexpr std::size_t kSmall = 4096;

  // `stream_idle(stream)` returns true if all work queued so far on the stream has run. The pool writes its
  // figures for other processes to `shared_statistics`.
  BlockPool(Arena arena,
            std::size_t limit,
            std::function<bool(StreamId)> stream_idle,
            SharedStatistics* shared_statistics);

  // Allocates a block of at least `size` > 0 bytes. Returns nullptr if the limit or the address range is
  // exhausted. `in_order`: only work issued on the stream from now on will use the memory, so the block may
  // be memory that the stream's queued work still uses.
  Block* allocate(std::size_t size, StreamId stream, bool scratch, bool in_order = true);
  // Frees the block. Its memory is reused when its streams no longer use it.
  void free(Block* block);

  // Turns a kernel's scratch block into the memory of a tensor.
  void turn_scratch_into_tensor_memory(Block* block);
  // Retains the block's memory after it is freed until the stream's current work is done.
  void record_stream(Block* block, StreamId stream);
  // Returns the streams named by record_stream() for the block.
  std::vector<StreamId> recorded_streams(const Block* block);

  // Appends the marks that work on the queue must wait for before it may use the blocks. The marks belong to
  // pending work of other queues that conflicts with `uses`: both use the same block, and at least one of the
  // two writes the block. If `failed` is true, also appends a mark for each queue whose work wrote a block
  // and has an error that was not thrown yet.
  void find_conflicts(c10::ArrayRef<BlockUse> uses,
                      int queue,
                      bool failed,
                      std::vector<runtime::QueueMark>& marks);
  // Records that the work before the mark uses the blocks.
  void record_uses(c10::ArrayRef<BlockUse> uses, const runtime::QueueMark& mark);
  // Fills blocks with 0xFF when they are allocated and when they are freed, unless work still uses them. Each
  // allocation then checks that no work uses the block, and ends the process with a message otherwise. For
  // tests.
  void set_poison(bool on) {
    poison_ = on;
  }
  // Sets the number of the lazy graph that is being recorded (as in Block::recorded_in; 0: no graph), and the
  // queue of the stream on which it is recorded. If a block whose stream has another queue is freed during
  // the recording, its memory is retained until record_uses() has been called for the graph's launch.
  void set_recording(std::uint64_t number, int queue);

  // Coalesces all free blocks and releases unused pages to the system.
  void empty_cache();

  PoolStatistics statistics();
  // Returns all blocks, used and free, by address.
  std::vector<BlockState> blocks();
  // Resets the peak to the memory in use.
  void reset_peak();
  // Resets the counters of torch.hpu.memory_stats().
  void reset_accumulated();
  // Resets the counters of torch.accelerator.memory_stats().
  void reset_totals();
  // Sets the limit in bytes. Throws std::invalid_argument if the limit exceeds the arena's size.
  void set_limit(std::size_t limit);

  // Returns the allocated block that starts at this host address.
  Block* block_at(const void* host) const {
    return starts_[granule_of(arena_.to_device(host))];
  }

  // Returns the serial number of the latest allocation.
  std::uint64_t serial() {
    const std::lock_guard lock(mutex_);
    return serial_;
  }

  const Arena& arena() const {
    return arena_;
  }

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->device < b->device;
    }
  };

  Block* take(std::size_t size);
  Block* take_from_ranges(std::size_t size);
  void return_block(Block* block);  // returns the block to its bin or to the free ranges
  bool has_foreign_users(Block* block);
  void poison(Block* block, const char* when);
  static void drop_reached_uses(Block* block);
  void return_block_in_order(Block* block);
  void coalesce(Block* block);
  void flush_bins();
  void release_deferred();
  Block* take_ordered(std::size_t size, StreamId stream);
  void release_ordered(StreamId stream);
  void release_all_ordered();
  void count_in_use(Block* block);
  void update_shared_statistics() {
    shared_statistics_->in_use.store(stats_.in_use, std::memory_order_relaxed);
    shared_statistics_->max_in_use.store(stats_.max_in_use, std::memory_order_relaxed);
  }
  std::size_t bin_of(std::size_t size) const {
    return size / kGranule - 1;
  }

  std::size_t granule_of(const char* device) const {
    return static_cast<std::size_t>(device - arena_.device_base) / kGranule;
  }

  Arena arena_;
  const Block* first_;  // first block by address; it absorbs other blocks and is never absorbed
  Block** starts_;      // per granule of the arena: the block that starts there; reserved address space
  std::function<bool(StreamId)> stream_idle_;
  runtime::RankedMutex<runtime::LockRank::Leaf> mutex_;
  std::set<Block*, BySize> ranges_;
  std::array<std::vector<Block*>, kSmall / kGranule> bins_;
  std::vector<Block*> deferred_;
  // Blocks that were freed while their stream had work. That stream may reuse them at once, because work
  // queued earlier runs first. Other streams may reuse them after that work.
  std::map<StreamId, std::multimap<std::size_t, Block*>> ordered_;
  std::vector<Block*> spare_;  // Block objects without memory, for reuse
  PoolStatistics stats_;
  SharedStatistics* const shared_statistics_;  // never freed: tensors may outlive static destruction
  std::uint64_t serial_ = 0;
  bool poison_ = false;
  std::uint64_t recording_ = 0;
  int recording_queue_ = 0;
};

}  // namespace hpu_reference::memory
