#include "memory/block_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace hpu_reference::memory {

namespace {

std::atomic<bool> g_defragments{true};

std::size_t round_up(std::size_t size) {
  return (size + BlockPool::kGranule - 1) / BlockPool::kGranule * BlockPool::kGranule;
}

void drop_host_storage(Block* block) {
  if (auto* storage = block->host_storage.exchange(nullptr)) {
    c10::raw::intrusive_ptr::decref(storage);
  }
}

}  // namespace

void set_defragmentation(bool on) {
  g_defragments = on;
}

BlockPool::BlockPool(Arena arena,
                     std::size_t limit,
                     std::function<bool(StreamId)> stream_idle,
                     SharedStatistics* shared_statistics)
    : arena_(arena), stream_idle_(std::move(stream_idle)), shared_statistics_(shared_statistics) {
  starts_ = static_cast<Block**>(reserve_zeros(arena.size / kGranule * sizeof(Block*)));
  stats_.limit = static_cast<std::int64_t>(std::min(limit, arena.size));
  shared_statistics_->limit = stats_.limit;
  auto* all = new Block();
  all->device = arena_.device_base;
  all->size = arena_.size / kGranule * kGranule;
  ranges_.insert(all);
  first_ = all;
}

Block* BlockPool::take_from_ranges(std::size_t size) {
  Block key;
  key.size = size;
  key.device = nullptr;
  auto position = ranges_.lower_bound(&key);
  if (position == ranges_.end()) {
    return nullptr;
  }
  Block* block = *position;
  ranges_.erase(position);
  if (block->size > size) {
    Block* rest;
    if (spare_.empty()) {
      rest = new Block();
    } else {
      rest = spare_.back();
      spare_.pop_back();
    }
    rest->device = block->device + size;
    rest->size = block->size - size;
    rest->in_use = false;
    rest->previous = block;
    rest->next = block->next;
    if (block->next != nullptr) {
      block->next->previous = rest;
    }
    block->next = rest;
    block->size = size;
    ranges_.insert(rest);
  }
  return block;
}

Block* BlockPool::take(std::size_t size) {
  if (size <= kSmall) {
    auto& bin = bins_[bin_of(size)];
    if (!bin.empty()) {
      Block* block = bin.back();
      bin.pop_back();
      return block;
    }
  }
  return take_from_ranges(size);
}

void BlockPool::count_in_use(Block* block) {
  const auto size = static_cast<std::int64_t>(block->size);
  stats_.in_use += size;
  stats_.max_in_use = std::max(stats_.max_in_use, stats_.in_use);
  stats_.largest = std::max(stats_.largest, size);
  stats_.allocations++;
  stats_.total_allocations++;
  stats_.bytes_allocated += size;
  stats_.active++;
  stats_.max_active = std::max(stats_.max_active, stats_.active);
  update_shared_statistics();
}

Block* BlockPool::allocate(std::size_t size, StreamId stream, bool scratch, bool in_order) {
  // Reject a size that cannot fit before it is rounded, because rounding it could overflow.
  if (size > arena_.size) {
    const std::lock_guard lock(mutex_);
    stats_.out_of_memory++;
    return nullptr;
  }
  size = round_up(size);
  const std::lock_guard lock(mutex_);
  if (!deferred_.empty()) {
    release_deferred();
  }
  const auto requested = static_cast<std::int64_t>(size);
  const bool fits = stats_.in_use + stats_.scratch + stats_.deferred + requested <= stats_.limit;
  Block* block = nullptr;
  if (C10_UNLIKELY(!ordered_.empty())) {
    if (stream_idle_(stream)) {
      release_ordered(stream);
    } else if (fits && in_order) {
      block = take_ordered(size, stream);
      size = block == nullptr ? size : block->size;
    }
  }
  const bool ordered = block != nullptr;
  if (fits && !ordered) {
    block = take(size);
  }
  if (fits && block == nullptr) {
    stats_.retries++;
    release_all_ordered();
    block = take(size);
  }
  if (fits && block == nullptr && g_defragments) {
    stats_.defragmentations++;
    flush_bins();
    block = take_from_ranges(size);
    stats_.defragmentations_succeeded += block != nullptr ? 1 : 0;
  }
  if (block == nullptr) {
    stats_.out_of_memory++;
    return nullptr;
  }
  block->in_use = true;
  block->ordered = ordered;
  block->host_written = false;
  block->serial = ++serial_;
  block->recorded_in.store(0, std::memory_order_relaxed);
  starts_[granule_of(block->device)] = block;
  if (C10_UNLIKELY(poison_ && !ordered)) {
    poison(block, "handed out");
  }
  block->scratch = scratch;
  block->stream = stream;
  if (scratch) {
    stats_.scratch += static_cast<std::int64_t>(block->size);
  } else {
    count_in_use(block);
  }
  return block;
}

void BlockPool::turn_scratch_into_tensor_memory(Block* block) {
  const std::lock_guard lock(mutex_);
  block->host_written = true;
  if (block->scratch) {
    block->scratch = false;
    stats_.scratch -= static_cast<std::int64_t>(block->size);
    count_in_use(block);
  }
}

void BlockPool::record_stream(Block* block, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (stream != block->stream &&
      std::find(block->used_on.begin(), block->used_on.end(), stream) == block->used_on.end()) {
    block->used_on.push_back(stream);
  }
}

std::vector<StreamId> BlockPool::recorded_streams(const Block* block) {
  const std::lock_guard lock(mutex_);
  return block->used_on;
}

Block* BlockPool::take_ordered(std::size_t size, StreamId stream) {
  const auto blocks = ordered_.find(stream);
  if (blocks == ordered_.end()) {
    return nullptr;
  }
  const auto position = blocks->second.lower_bound(size);
  if (position == blocks->second.end() || position->first > size + size / 4) {
    return nullptr;
  }
  Block* block = position->second;
  blocks->second.erase(position);
  stats_.ordered -= static_cast<std::int64_t>(block->size);
  return block;
}

void BlockPool::release_ordered(StreamId stream) {
  const auto blocks = ordered_.find(stream);
  if (blocks == ordered_.end()) {
    return;
  }
  for (const auto& [size, block] : blocks->second) {
    stats_.ordered -= static_cast<std::int64_t>(size);
    return_block(block);
  }
  ordered_.erase(blocks);
}

void BlockPool::release_all_ordered() {
  std::vector<StreamId> idle;
  for (const auto& entry : ordered_) {
    if (stream_idle_(entry.first)) {
      idle.push_back(entry.first);
    }
  }
  for (const StreamId stream : idle) {
    release_ordered(stream);
  }
}

void BlockPool::free(Block* block) {
  const std::lock_guard lock(mutex_);
  const bool recorded = recording_ != 0 && recording_queue_ != runtime::queue_of(block->stream) &&
                        block->recorded_in.load(std::memory_order_acquire) == recording_;
  block->freed_in = recorded ? recording_ : 0;
  block->recorded_in.store(0, std::memory_order_release);
  const auto size = static_cast<std::int64_t>(block->size);
  if (block->scratch) {
    stats_.scratch -= size;
  } else {
    stats_.in_use -= size;
    stats_.active--;
    stats_.frees++;
    stats_.total_frees++;
    stats_.bytes_freed += size;
    update_shared_statistics();
  }
  if (has_foreign_users(block)) {
    stats_.deferred += size;
    deferred_.push_back(block);
    return;
  }
  block->used_on.clear();
  return_block_in_order(block);
}

// Returns true if work outside the queue of the block's own stream may use the block.
bool BlockPool::has_foreign_users(Block* block) {
  if (block->freed_in != 0 && block->freed_in == recording_) {
    return true;
  }
  drop_reached_uses(block);
  const int own = runtime::queue_of(block->stream);
  return std::any_of(block->users.begin(),
                     block->users.end(),
                     [&](const PendingUse& use) {
                       return use.mark.queue != own && !runtime::is_reached(use.mark);
                     }) ||
         !std::all_of(block->used_on.begin(), block->used_on.end(), stream_idle_);
}

// Removes the uses by work that has run. Uses of a queue with an error stay until the error is thrown, so
// that readers of the block find the error.
void BlockPool::drop_reached_uses(Block* block) {
  const auto reached = [](const PendingUse& use) {
    return runtime::is_reached(use.mark) && !runtime::has_error(use.mark.queue);
  };
  block->users.erase(std::remove_if(block->users.begin(), block->users.end(), reached), block->users.end());
  block->has_users.store(!block->users.empty(), std::memory_order_release);
}

void BlockPool::find_conflicts(c10::ArrayRef<BlockUse> uses,
                               int queue,
                               bool failed,
                               std::vector<runtime::QueueMark>& marks) {
  const std::lock_guard lock(mutex_);
  for (const BlockUse& requested : uses) {
    if (!requested.block->has_users.load(std::memory_order_acquire)) {
      continue;
    }
    drop_reached_uses(requested.block);
    for (const PendingUse& use : requested.block->users) {
      const bool writer_failed = failed && use.written && runtime::has_error(use.mark.queue);
      if (use.mark.queue == queue || !(use.written || requested.written) ||
          (runtime::is_reached(use.mark) && !writer_failed)) {
        continue;
      }
      const auto existing = std::find_if(
          marks.begin(), marks.end(), [&](const auto& mark) { return mark.queue == use.mark.queue; });
      if (existing == marks.end()) {
        marks.push_back(use.mark);
      } else {
        existing->number = std::max(existing->number, use.mark.number);
      }
    }
  }
}

void BlockPool::record_uses(c10::ArrayRef<BlockUse> uses, const runtime::QueueMark& mark) {
  const std::lock_guard lock(mutex_);
  if (runtime::is_reached(mark)) {
    return;
  }
  for (const BlockUse& use : uses) {
    // For each queue, keep the last write and the last use: all earlier uses have run when these have run.
    const auto superseded = [&](const PendingUse& existing) {
      return existing.mark.queue == mark.queue && (use.written || !existing.written);
    };
    auto& users = use.block->users;
    users.erase(std::remove_if(users.begin(), users.end(), superseded), users.end());
    users.push_back({mark, use.written});
    use.block->has_users.store(true, std::memory_order_release);
  }
}

void BlockPool::set_recording(std::uint64_t number, int queue) {
  const std::lock_guard lock(mutex_);
  recording_ = number;
  recording_queue_ = queue;
}

void BlockPool::return_block_in_order(Block* block) {
  if (C10_UNLIKELY(!stream_idle_(block->stream))) {
    stats_.ordered += static_cast<std::int64_t>(block->size);
    ordered_[block->stream].emplace(block->size, block);
  } else {
    return_block(block);
  }
}

void BlockPool::release_deferred() {
  auto still_used = [&](Block* block) {
    if (has_foreign_users(block)) {
      return true;
    }
    block->used_on.clear();
    stats_.deferred -= static_cast<std::int64_t>(block->size);
    return_block_in_order(block);
    return false;
  };
  deferred_.erase(std::stable_partition(deferred_.begin(), deferred_.end(), still_used), deferred_.end());
}

// Fills the block with 0xFF, so that work that reads memory before it is written, or after it was freed,
// reads NaN.
void BlockPool::poison(Block* block, const char* when) {
  drop_reached_uses(block);
  const auto pending = std::find_if(block->users.begin(), block->users.end(), [](const PendingUse& use) {
    return !runtime::is_reached(use.mark);
  });
  if (pending != block->users.end() || (block->freed_in != 0 && block->freed_in == recording_)) {
    std::fprintf(stderr,
                 "hpu: memory of %zu bytes was %s while work of queue %d still used it\n",
                 block->size,
                 when,
                 pending == block->users.end() ? recording_queue_ : pending->mark.queue);
    std::abort();
  }
  std::memset(arena_.to_host(block->device), 0xFF, block->size);
}

void BlockPool::return_block(Block* block) {
  block->in_use = false;
  if (C10_UNLIKELY(poison_)) {
    poison(block, "given back");
  }
  block->users.clear();
  block->has_users.store(false, std::memory_order_release);
  if (block->size <= kSmall) {
    bins_[bin_of(block->size)].push_back(block);
  } else {
    coalesce(block);
  }
}

void BlockPool::coalesce(Block* block) {
  // A free block is either in a bin or in ranges_. The return value of ranges_.erase() distinguishes the two.
  auto absorb = [&](Block* left, Block* right) {
    left->size += right->size;
    left->next = right->next;
    if (right->next != nullptr) {
      right->next->previous = left;
    }
    drop_host_storage(right);
    right->previous = right->next = nullptr;
    spare_.push_back(right);
  };
  drop_host_storage(block);
  if (Block* next = block->next; next != nullptr && !next->in_use && ranges_.erase(next) == 1) {
    absorb(block, next);
  }
  if (Block* previous = block->previous;
      previous != nullptr && !previous->in_use && ranges_.erase(previous) == 1) {
    absorb(previous, block);
    block = previous;
  }
  ranges_.insert(block);
}

void BlockPool::flush_bins() {
  for (auto& bin : bins_) {
    for (Block* block : bin) {
      coalesce(block);
    }
    bin.clear();
  }
}

void BlockPool::empty_cache() {
  const std::lock_guard lock(mutex_);
  release_deferred();
  release_all_ordered();
  flush_bins();
  for (const Block* block : ranges_) {
    release_pages(arena_, block->device, block->size);
  }
}

PoolStatistics BlockPool::statistics() {
  const std::lock_guard lock(mutex_);
  PoolStatistics result = stats_;
  const std::int64_t range = ranges_.empty() ? 0 : static_cast<std::int64_t>((*ranges_.rbegin())->size);
  result.largest_free = std::min(range, stats_.limit);
  return result;
}

std::vector<BlockState> BlockPool::blocks() {
  const std::lock_guard lock(mutex_);
  std::vector<BlockState> result;
  std::set<const Block*> pending(deferred_.begin(), deferred_.end());
  for (const auto& [stream, blocks] : ordered_) {
    for (const auto& [size, block] : blocks) {
      pending.insert(block);
    }
  }
  for (const Block* block = first_; block != nullptr; block = block->next) {
    const bool freed = pending.count(block) != 0;
    result.push_back({reinterpret_cast<std::uintptr_t>(block->device),
                      block->size,
                      block->stream,
                      block->in_use && !freed,
                      freed});
  }
  return result;
}

void BlockPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.max_in_use = stats_.in_use;
  stats_.max_active = stats_.active;
}

void BlockPool::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  stats_.allocations = 0;
  stats_.frees = 0;
  stats_.max_in_use = stats_.in_use;
  stats_.largest = 0;
}

void BlockPool::reset_totals() {
  const std::lock_guard lock(mutex_);
  stats_.total_allocations = stats_.total_frees = 0;
  stats_.bytes_allocated = stats_.bytes_freed = 0;
}

void BlockPool::set_limit(std::size_t limit) {
  const std::lock_guard lock(mutex_);
  if (limit > arena_.size) {
    throw std::invalid_argument("memory limit of " + std::to_string(limit) + " bytes is above the device's " +
                                std::to_string(arena_.size) + " bytes; give a smaller limit");
  }
  stats_.limit = static_cast<std::int64_t>(limit);
  shared_statistics_->limit = stats_.limit;
}

}  // namespace hpu_reference::memory
