#include "distributed/shared_collective.h"

#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "distributed/reduction_kernel.h"
#include "memory/allocator.h"

namespace hpu_reference::distributed {

namespace {

// Size of the chunks in which the ranks process an all-reduce. It is so small that the result of one rank is
// still in the shared cache when the other ranks copy it.
constexpr std::int64_t kChunkBytes = 1 << 20;
// Bytes of a cache line. The share of each rank and each small block begin on a cache line.
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

std::uint64_t rounded_to_lines(std::uint64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

std::uint64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.nbytes() : 0;
}

char* start_of(const at::Tensor& tensor) {
  return static_cast<char*>(tensor.data_ptr());
}

const char* name_of(std::int32_t reduction) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(reduction)) {
    case c10d::ReduceOp::SUM:
      return "SUM";
    case c10d::ReduceOp::PRODUCT:
      return "PRODUCT";
    case c10d::ReduceOp::MIN:
      return "MIN";
    case c10d::ReduceOp::MAX:
      return "MAX";
    default:
      return "none";
  }
}

// Thrown if the ranks do not call the same collective. All ranks detect this, so the group remains usable.
class Mismatch final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs a step of a collective. If the step throws, the group rejects later collectives, except after a
// mismatch.
template <class Step>
bool run_step(SharedGroup& group, const Step& step) {
  if (!group.is_usable()) {
    throw std::runtime_error("an earlier collective of the group has failed, or the group was aborted");
  }
  try {
    return step();
  } catch (const Mismatch&) {
    throw;
  } catch (...) {
    group.fail();
    throw;
  }
}

}  // namespace

SharedCollective::SharedCollective(std::shared_ptr<SharedGroup> group,
                                   CollectiveTensors tensors,
                                   std::chrono::milliseconds timeout)
    : group_(std::move(group)), tensors_(std::move(tensors)), timeout_(timeout) {
  std::uint64_t bytes = 0;
  at::Tensor previous;
  for (int rank = 0; rank < group_->size(); rank++) {
    const at::Tensor tensor = tensor_for(rank);
    if (rank != group_->rank() && !tensor.is_same(previous)) {
      bytes += rounded_to_lines(bytes_of(tensor));
      previous = tensor;
    }
  }
  is_small_ = group_->is_small(bytes, /*all_read=*/tensors_.operation == c10d::OpType::ALLREDUCE);
  for (const auto* list : {&tensors_.sent, &tensors_.received}) {
    for (const at::Tensor& tensor : *list) {
      if (tensor.defined()) {
        dtype_ = tensor.scalar_type();
      }
    }
  }
}

at::Tensor SharedCollective::tensor_for(int rank) const {
  return tensors_.sent.empty() ? at::Tensor() : tensors_.sent[static_cast<std::size_t>(rank)];
}

std::uint64_t SharedCollective::bytes_from(int rank) const {
  if (tensors_.reduced.defined()) {
    return tensors_.reduced.nbytes();
  }
  return tensors_.received.empty() ? 0 : bytes_of(tensors_.received[static_cast<std::size_t>(rank)]);
}

void SharedCollective::publish() {
  is_published_ = true;
  group_->begin();
  Part& part = group_->part(group_->rank());
  part.operation = static_cast<std::int32_t>(tensors_.operation);
  part.dtype = static_cast<std::int32_t>(dtype_);
  part.reduction = tensors_.reduction.has_value() ? static_cast<std::int32_t>(*tensors_.reduction) : -1;
  part.root = static_cast<std::int32_t>(tensors_.root.value_or(-1));
  part.is_in_device_memory = is_small_ ? 0 : 1;
  std::uint64_t used = 0;
  int previous = -1;  // the last other rank with a block
  for (int rank = 0; rank < group_->size(); rank++) {
    part.expected[rank] = bytes_from(rank);
    const at::Tensor tensor = tensor_for(rank);
    Block& block = part.sent[rank];
    block = {bytes_of(tensor), 0};
    if (block.bytes == 0 || rank == group_->rank()) {
      continue;  // block_from() reads the tensor itself
    }
    if (previous >= 0 && tensor.is_same(tensor_for(previous))) {
      block = part.sent[previous];
    } else if (is_small_) {
      block.offset = used;
      std::memcpy(group_->small_part_memory(group_->rank()) + used, tensor.data_ptr(), block.bytes);
      used += rounded_to_lines(block.bytes);
    } else {
      block.offset = static_cast<std::uint64_t>(start_of(tensor) - memory::arena().host_base);
    }
    previous = rank;
  }
  group_->publish();
}

bool SharedCollective::is_complete_after_publishing() const {
  if (!is_small_ || !tensors_.root.has_value() || tensors_.reduced.defined()) {
    return false;
  }
  for (int rank = 0; rank < group_->size(); rank++) {
    if (rank != group_->rank() && bytes_from(rank) != 0) {
      return false;
    }
  }
  return true;
}

bool SharedCollective::are_alike() const {
  const Part& own = group_->part(group_->rank());
  for (int sender = 0; sender < group_->size(); sender++) {
    const Part& part = group_->part(sender);
    if (!part.is_like(own)) {
      return false;
    }
    for (int receiver = 0; receiver < group_->size(); receiver++) {
      if (part.sent[receiver].bytes != group_->part(receiver).expected[sender]) {
        return false;
      }
    }
  }
  return true;
}

void SharedCollective::require_alike() const {
  if (are_alike()) {
    return;
  }
  std::ostringstream text;
  text << "the ranks' collectives or tensors differ:";
  for (int rank = 0; rank < group_->size(); rank++) {
    const Part& part = group_->part(rank);
    std::uint64_t sent = 0;
    std::uint64_t expected = 0;
    for (int other_rank = 0; other_rank < group_->size(); other_rank++) {
      sent = std::max(sent, part.sent[other_rank].bytes);
      expected = std::max(expected, part.expected[other_rank]);
    }
    text << (rank == 0 ? " " : ", ") << "rank " << rank << " has "
         << c10d::opTypeToString(static_cast<c10d::OpType>(part.operation)) << " of "
         << static_cast<c10::ScalarType>(part.dtype);
    if (part.reduction >= 0) {
      text << " (" << name_of(part.reduction) << ")";
    }
    if (part.root >= 0) {
      text << " with root " << part.root;
    }
    text << ", sends blocks of up to " << sent << " bytes and expects up to " << expected << " bytes";
  }
  for (int sender = 0; sender < group_->size(); sender++) {
    for (int receiver = 0; receiver < group_->size(); receiver++) {
      const std::uint64_t sent = group_->part(sender).sent[receiver].bytes;
      const std::uint64_t expected = group_->part(receiver).expected[sender];
      if (sent != expected) {
        text << "; rank " << sender << " sends " << sent << " bytes to rank " << receiver
             << ", which expects " << expected;
        throw Mismatch(text.str());
      }
    }
  }
  throw Mismatch(text.str());
}

bool SharedCollective::is_any_in_device_memory() const {
  for (int rank = 0; rank < group_->size(); rank++) {
    if (group_->part(rank).is_in_device_memory != 0) {
      return true;
    }
  }
  return false;
}

// Returns the start of the bytes that a rank sends to this rank.
const char* SharedCollective::block_from(int rank) const {
  if (rank == group_->rank()) {
    return start_of(tensor_for(rank));
  }
  const Part& part = group_->part(rank);
  const char* start = part.is_in_device_memory == 0 ? group_->small_part_memory(rank) : group_->device(rank);
  return start + part.sent[group_->rank()].offset;
}

// Copies the blocks of all ranks into this rank's tensors, or reduces them.
void SharedCollective::receive() {
  if (tensors_.reduced.defined()) {
    if (tensors_.reduced.numel() > 0) {
      c10::SmallVector<const char*, 8> blocks;
      for (int rank = 0; rank < group_->size(); rank++) {
        blocks.push_back(block_from(rank));
      }
      reduce_parts(start_of(tensors_.reduced),
                   blocks,
                   tensors_.reduced.numel(),
                   tensors_.reduced.scalar_type(),
                   *tensors_.reduction);
    }
    return;
  }
  for (int rank = 0; rank < group_->size(); rank++) {
    const std::uint64_t bytes = bytes_from(rank);
    if (bytes == 0) {
      continue;
    }
    char* to = start_of(tensors_.received[static_cast<std::size_t>(rank)]);
    const char* from = block_from(rank);
    if (to != from) {  // the input of a rank may be its part of the output
      std::memmove(to, from, bytes);
    }
  }
}

void SharedCollective::all_reduce_in_chunks(WaitLimits& limits) {
  const int size = group_->size();
  const at::Tensor& host = tensors_.reduced;
  const auto item = static_cast<std::int64_t>(host.element_size());
  const std::int64_t count = host.numel();
  const std::int64_t chunk = kChunkBytes / item;
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  char* own = start_of(host);
  c10::SmallVector<const char*, 8> theirs;
  for (int rank = 0; rank < size; rank++) {
    theirs.push_back(block_from(rank));
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
      reduce_parts(own + range.start * item, parts, range.count, host.scalar_type(), *tensors_.reduction);
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
}

bool SharedCollective::attempt() noexcept {
  start_ = std::chrono::steady_clock::now();
  if (!is_small() || !group_->is_usable() || !group_->arrive_within_a_moment(group_->published_step())) {
    return false;
  }
  publish();
  if (is_complete_after_publishing()) {
    receive();
    return true;
  }
  if (!group_->arrive_within_a_moment(group_->step()) || !are_alike() || group_->failed_rank() >= 0 ||
      is_any_in_device_memory()) {
    return false;
  }
  receive();
  return true;
}

bool SharedCollective::finish(std::chrono::milliseconds slow_after, std::function<void()> on_slow) {
  if (start_ == std::chrono::steady_clock::time_point()) {
    start_ = std::chrono::steady_clock::now();
  }
  return run_step(*group_, [&] {
    WaitLimits limits{start_, timeout_, slow_after, std::move(on_slow)};
    if (!is_published_) {
      group_->wait(group_->published_step(), limits);
      publish();
    }
    if (is_complete_after_publishing()) {
      receive();
      return true;
    }
    group_->wait(group_->step(), limits);
    group_->require_no_failure();
    require_alike();
    if (!is_any_in_device_memory()) {
      receive();
      return true;
    }
    if (!group_->share_devices(limits)) {
      return false;
    }
    if (tensors_.operation == c10d::OpType::ALLREDUCE) {
      all_reduce_in_chunks(limits);
    } else {
      receive();
    }
    group_->require_no_failure();
    group_->advance();  // other ranks read this rank's memory until all ranks have made this step
    group_->wait(group_->step(), limits);
    return true;
  });
}

bool finish_all(const std::vector<std::shared_ptr<SharedCollective>>& collectives,
                std::chrono::milliseconds slow_after,
                const std::function<void()>& on_slow) {
  // The ranks agree on a transport before the first collective, because gloo must not repeat an all-reduce.
  if (collectives.size() > 1 && !collectives.front()->share_devices(slow_after, on_slow)) {
    return false;
  }
  for (const auto& collective : collectives) {
    if (!collective->finish(slow_after, on_slow)) {
      return false;
    }
  }
  return true;
}

bool SharedCollective::share_devices(std::chrono::milliseconds slow_after, std::function<void()> on_slow) {
  return run_step(*group_, [&] {
    WaitLimits limits{std::chrono::steady_clock::now(), timeout_, slow_after, std::move(on_slow)};
    return group_->share_devices(limits);
  });
}

}  // namespace hpu_reference::distributed
