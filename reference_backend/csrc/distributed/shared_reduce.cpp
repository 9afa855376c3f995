#include "distributed/shared_reduce.h"

#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "distributed/reduction_kernel.h"
#include "memory/allocator.h"

namespace hpu_reference::distributed {

namespace {

// Size of the chunks in which the ranks process a tensor. It is so small that the result of one rank is still
// in the shared cache when the other ranks copy it.
constexpr std::int64_t kChunkBytes = 1 << 20;
// Bytes of a cache line. The share of each rank begins on a cache line.
constexpr std::int64_t kLineBytes = 64;

struct Range {
  std::int64_t start;
  std::int64_t count;
};

// Returns the share of a rank in `count` elements.
Range share_of(int rank, int size, std::int64_t count, std::int64_t line) {
  const std::int64_t each = ((count + size - 1) / size + line - 1) / line * line;
  const std::int64_t start = std::min(count, rank * each);
  return {start, std::min(each, count - start)};
}

// Thrown if the ranks do not call the same collective. All ranks detect this, so the group remains usable.
class Mismatch final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace

SharedReduce::SharedReduce(std::shared_ptr<SharedGroup> group,
                           at::Tensor host,
                           c10d::ReduceOp::RedOpType operation,
                           std::chrono::milliseconds timeout)
    : group_(std::move(group)),
      host_(std::move(host)),
      operation_(operation),
      timeout_(timeout),
      bytes_(host_.nbytes()) {
}

void SharedReduce::publish_part() {
  if (part_published_) {
    return;
  }
  part_published_ = true;
  start_ = std::chrono::steady_clock::now();
  group_->begin();
  Part& part = group_->part(group_->rank());
  part = {bytes_, 0, static_cast<std::int32_t>(host_.scalar_type()), static_cast<std::int32_t>(operation_)};
  if (!is_small()) {
    part.offset =
        static_cast<std::uint64_t>(static_cast<char*>(host_.data_ptr()) - memory::arena().host_base);
  } else if (bytes_ != 0) {
    std::memcpy(group_->small_part_memory(group_->rank()), host_.data_ptr(), bytes_);
  }
  group_->advance();
}

bool SharedReduce::are_alike() const {
  const Part& own = group_->part(group_->rank());
  for (int rank = 0; rank < group_->size(); rank++) {
    if (!group_->part(rank).is_like(own)) {
      return false;
    }
  }
  return true;
}

void SharedReduce::require_alike() const {
  if (are_alike()) {
    return;
  }
  std::ostringstream text;
  text << "the ranks' tensors or operations differ:";
  for (int rank = 0; rank < group_->size(); rank++) {
    const Part& part = group_->part(rank);
    text << (rank == 0 ? " " : ", ") << "rank " << rank << " has " << part.bytes << " bytes of "
         << static_cast<c10::ScalarType>(part.dtype) << " (reduction " << part.operation << ")";
  }
  throw Mismatch(text.str());
}

void SharedReduce::reduce_small() {
  if (bytes_ == 0) {
    return;
  }
  c10::SmallVector<const char*, 8> parts;
  for (int rank = 0; rank < group_->size(); rank++) {
    parts.push_back(group_->small_part_memory(rank));
  }
  reduce_parts(static_cast<char*>(host_.data_ptr()), parts, host_.numel(), host_.scalar_type(), operation_);
}

void SharedReduce::reduce_large(WaitLimits& limits) {
  const int size = group_->size();
  const auto item = static_cast<std::int64_t>(host_.element_size());
  const std::int64_t count = host_.numel();
  const std::int64_t chunk = kChunkBytes / item;
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  auto* own = static_cast<char*>(host_.data_ptr());
  c10::SmallVector<const char*, 8> theirs;
  for (int rank = 0; rank < size; rank++) {
    theirs.push_back(rank == group_->rank() ? own : group_->device(rank) + group_->part(rank).offset);
  }
  const auto share = [&](std::int64_t index, int rank) {
    const std::int64_t start = index * chunk;
    Range range = share_of(rank, size, std::min(chunk, count - start), kLineBytes / item);
    range.start += start;
    return range;
  };
  const std::uint64_t first = group_->step();
  for (std::int64_t index = 0; index <= chunks; index++) {
    if (index < chunks) {
      const Range range = share(index, group_->rank());
      c10::SmallVector<const char*, 8> parts;
      for (const char* part : theirs) {
        parts.push_back(part + range.start * item);
      }
      reduce_parts(own + range.start * item, parts, range.count, host_.scalar_type(), operation_);
      group_->advance();
    }
    if (index > 0) {
      group_->wait(first + static_cast<std::uint64_t>(index), limits);
      for (int rank = 0; rank < size; rank++) {
        const Range range = share(index - 1, rank);
        if (rank != group_->rank() && range.count > 0) {
          std::memcpy(own + range.start * item,
                      theirs[static_cast<std::size_t>(rank)] + range.start * item,
                      static_cast<std::size_t>(range.count * item));
        }
      }
    }
  }
  group_->require_no_failure();
  group_->advance();  // other ranks read this rank's memory until all ranks have made this step
  group_->wait(group_->step(), limits);
}

bool SharedReduce::attempt() noexcept {
  if (!is_small() || !group_->is_usable()) {
    return false;
  }
  publish_part();
  if (!group_->arrive_within_a_moment(group_->step()) || !are_alike() || group_->failed_rank() >= 0) {
    return false;
  }
  reduce_small();
  return true;
}

bool SharedReduce::finish(std::chrono::milliseconds slow_after, std::function<void()> on_slow) {
  if (!is_small() && group_->is_device_sharing_impossible()) {
    return false;
  }
  if (!group_->is_usable()) {
    throw std::runtime_error("an earlier collective of the group has failed, or the group was aborted");
  }
  try {
    publish_part();
    WaitLimits limits{start_, timeout_, slow_after, std::move(on_slow)};
    group_->wait(group_->step(), limits);
    group_->require_no_failure();
    require_alike();
    if (is_small()) {
      reduce_small();
      return true;
    }
    if (!group_->share_devices(limits)) {
      return false;
    }
    reduce_large(limits);
    return true;
  } catch (const Mismatch&) {
    throw;
  } catch (...) {
    group_->fail();
    throw;
  }
}

}  // namespace hpu_reference::distributed
