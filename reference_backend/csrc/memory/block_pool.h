// A coalescing, stream-ordered pool of blocks over the arena. No torch types besides the cached host storage.
//
// Small sizes come from exact-size bins that are not coalesced until memory runs short; the rest from a
// best-fit set of free ranges. Freed pages stay with the process until empty_cache or until memory runs
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

// A use of a block by work that is in a queue.
struct PendingUse {
  runtime::QueueMark mark;  // behind the work
  bool written;
};

// A range of the arena, free or in use.
struct Block {
  char* device = nullptr;  // address in the device view
  std::size_t size = 0;    // bytes, a multiple of the granule
  StreamId stream = 0;     // the stream it was allocated on
  bool in_use = false;
  bool scratch = false;       // memory of a running kernel, not (yet) a tensor of the user's
  Block* previous = nullptr;  // neighbours by address
  Block* next = nullptr;
  std::vector<StreamId> used_on;  // streams named by record_stream
  // Uses by work that may not have run: per queue the last that writes, and the last. Guarded by the pool.
  std::vector<PendingUse> users;
  std::atomic<bool> has_users{false};  // not `users.empty()`
  std::uint64_t freed_in = 0;          // number of the lazy graph in whose recording it was freed
  // Number of the graph that is being recorded and has this memory as its buffer `buffer`; 0 if none does.
  // Freeing resets it.
  std::atomic<std::uint64_t> recorded_in{0};
  int buffer = -1;
  std::uint64_t serial = 0;   // of the allocation
  bool host_written = false;  // by a copy from the host that overtook recorded work
  bool ordered = false;       // reused while its stream still had work with the block's last owner
  // A CPU storage over the host view of this block, which no call uses: a call takes it and gives it back.
  std::atomic<c10::StorageImpl*> host_storage{nullptr};
};

// A block in the hands of one piece of work.
struct BlockUse {
  Block* block;
  bool written;
  bool freed = false;  // the tensor has died before the work was launched; the block may be another one's
};

// What a block is now. Addresses are the device's.
struct BlockState {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  StreamId stream = 0;
  bool in_use = false;   // by a tensor or a running kernel
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
  std::int64_t ordered = 0;   // bytes freed by the user that only their own stream may use again yet
  std::int64_t defragmentations = 0;
  std::int64_t defragmentations_succeeded = 0;
};

// Turns the coalescing of small free blocks for an allocation that fits nowhere else on or off; on at start.
void set_defragmentation(bool on);

// The pool; its methods may be called from several threads.
class BlockPool {
 public:
  static constexpr std::size_t kGranule = 64;
  static constexpr std::size_t kSmall = 4096;

  // `stream_idle(stream)` returns true if all work queued so far on the stream has run. `published` gets the
  // figures for other processes.
  BlockPool(Arena arena,
            std::size_t limit,
            std::function<bool(StreamId)> stream_idle,
            PublishedRecord* published);

  // Takes a block of at least `size` > 0 bytes; nullptr if the limit or the address range is exhausted.
  // `in_order`: only work behind what is queued on the stream now uses the memory, so that it may be memory
  // that was freed behind that.
  Block* allocate(std::size_t size, StreamId stream, bool scratch, bool in_order = true);
  // Takes the block back; its memory is used again when its streams are done with it.
  void free(Block* block);

  // Turns a kernel's scratch block into the memory of a tensor.
  void promote(Block* block);
  // Keeps the block's memory, when freed, until the stream's work is done.
  void record_stream(Block* block, StreamId stream);
  // The streams named by record_stream() for the block.
  std::vector<StreamId> recorded_streams(const Block* block);

  // Appends the marks that work on the queue has to wait for before it may use the blocks: one for each other
  // queue with work that has not run and writes what is used, or uses what is written. With `failed`, also
  // for each queue whose work wrote a block and met an error that has not been thrown.
  void find_conflicts(c10::ArrayRef<BlockUse> uses,
                      int queue,
                      bool failed,
                      std::vector<runtime::QueueMark>& marks);
  // Remembers that the work before the mark uses the blocks.
  void note_uses(c10::ArrayRef<BlockUse> uses, const runtime::QueueMark& mark);
  // Fills blocks with 0xFF when they are handed out and when they come back, unless work still uses them, and
  // checks then that none does: it ends the process with a message if it finds some. For tests.
  void set_poison(bool on) {
    poison_ = on;
  }
  // Names the lazy graph that is being recorded, as in Block::recorded_in, and its queue; 0: none. Memory of
  // another queue's stream that is freed meanwhile stays until note_uses() has seen the graph's launch.
  void set_recording(std::uint64_t number, int queue);

  // Coalesces all free blocks and gives unused pages back to the system.
  void empty_cache();

  // The counters now.
  PoolStatistics statistics();
  // All blocks, used and free, by address.
  std::vector<BlockState> blocks();
  // Resets the peak to what is in use.
  void reset_peak();
  // Resets the counters of torch.hpu.memory_stats().
  void reset_accumulated();
  // Resets the counters of torch.accelerator.memory_stats().
  void reset_totals();
  // Sets the limit in bytes; throws std::invalid_argument if it is above the arena's size.
  void set_limit(std::size_t limit);

  // The allocated block that starts at this host address.
  Block* block_at(const void* host) const {
    return starts_[granule_of(arena_.to_device(host))];
  }

  // Serial number of the latest allocation.
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
  void give_back(Block* block);  // to its bin or to the free ranges
  bool has_foreign_users(Block* block);
  void poison(Block* block, const char* when);
  static void forget_reached(Block* block);
  void give_back_in_order(Block* block);
  void coalesce(Block* block);
  void flush_bins();
  void release_deferred();
  Block* take_ordered(std::size_t size, StreamId stream);
  void release_ordered(StreamId stream);
  void release_all_ordered();
  void count_in_use(Block* block);
  void show() {
    published_->in_use.store(stats_.in_use, std::memory_order_relaxed);
    published_->max_in_use.store(stats_.max_in_use, std::memory_order_relaxed);
  }
  std::size_t bin_of(std::size_t size) const {
    return size / kGranule - 1;
  }

  std::size_t granule_of(const char* device) const {
    return static_cast<std::size_t>(device - arena_.device_base) / kGranule;
  }

  Arena arena_;
  const Block* first_;  // by address; it absorbs others and is never absorbed
  Block** starts_;      // by granule; sparse, reserved address space, touched at the starts of blocks
  std::function<bool(StreamId)> stream_idle_;
  runtime::RankedMutex<runtime::LockRank::Leaf> mutex_;
  std::set<Block*, BySize> ranges_;
  std::array<std::vector<Block*>, kSmall / kGranule> bins_;
  std::vector<Block*> deferred_;
  // Blocks freed while their stream had work: that stream may reuse them at once, since work queued earlier
  // runs first; other streams may after that work.
  std::map<StreamId, std::multimap<std::size_t, Block*>> ordered_;
  std::vector<Block*> spare_;  // Block objects without memory
  PoolStatistics stats_;
  PublishedRecord* const published_;  // never freed: tensors may outlive everything
  std::uint64_t serial_ = 0;
  bool poison_ = false;
  std::uint64_t recording_ = 0;
  int recording_queue_ = 0;
};

}  // namespace hpu_reference::memory
