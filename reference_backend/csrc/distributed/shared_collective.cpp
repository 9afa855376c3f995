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

// Returns the range of elements that a rank reduces, of `count` elements in total. Ranges start at multiples
// of `line` elements.
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

bool overlap(const at::Tensor& one, const at::Tensor& other) {
  return bytes_of(one) != 0 && bytes_of(other) != 0 && start_of(one) < start_of(other) + bytes_of(other) &&
         start_of(other) < start_of(one) + bytes_of(one);
}

bool have_same_memory(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && other.defined() && start_of(one) == start_of(other) &&
         bytes_of(one) == bytes_of(other);
}

// Returns true if a rank may read a block from every rank, each as large as the rank's own block.
bool reads_equal_blocks(c10d::OpType operation) {
  switch (operation) {
    case c10d::OpType::ALLREDUCE:
    case c10d::OpType::REDUCE:
    case c10d::OpType::ALLGATHER:
    case c10d::OpType::_ALLGATHER_BASE:
    case c10d::OpType::GATHER:
      return true;
    default:
      return false;
  }
}

// Returns true if a rank with this part needs nothing of the other ranks, and they do not read its device
// memory.
bool needs_no_other_rank(const CollectiveDescription& part, int own_rank, int size) {
  if (part.is_in_device_memory != 0 || part.root < 0) {
    return false;
  }
  for (int rank = 0; rank < size; rank++) {
    if (rank != own_rank && part.expected[rank] != 0) {
      return false;
    }
  }
  return true;
}

// Runs a step of a collective. If the step throws, the group rejects later collectives, except after a
// mismatch.
template <class Step>
bool run_step(SharedGroup& group, const Step& step) {
  if (!group.is_usable()) {
    throw std::runtime_error("an earlier collective of the group has failed, or the group was aborted");
  }
  try {
    return step();
  } catch (const DifferentCollectives&) {
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
  is_small_ = tensors_.list_length == 0 && group_->is_small(bytes, reads_equal_blocks(tensors_.operation));
  is_staged_ = writes_into_sent_blocks();
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

// Returns true if a result overlaps a block that another rank may still read, or that this rank has not read
// yet. This rank's own block may be the same memory as its own part of the result: that memory is not
// written, or each element is read before it is written.
bool SharedCollective::writes_into_sent_blocks() const {
  if (tensors_.operation == c10d::OpType::ALLREDUCE) {
    return false;
  }
  const at::Tensor own_block = tensor_for(group_->rank());
  if (tensors_.reduced.defined()) {
    for (int rank = 0; rank < group_->size(); rank++) {
      const at::Tensor block = tensor_for(rank);
      if (overlap(tensors_.reduced, block) &&
          (rank != group_->rank() || !have_same_memory(tensors_.reduced, own_block))) {
        return true;
      }
    }
    return false;
  }
  for (std::size_t sender = 0; sender < tensors_.received.size(); sender++) {
    const at::Tensor& result = tensors_.received[sender];
    if (static_cast<int>(sender) == group_->rank() && have_same_memory(result, own_block)) {
      continue;
    }
    for (const at::Tensor& block : tensors_.sent) {
      if (overlap(result, block)) {
        return true;
      }
    }
  }
  return false;
}

void SharedCollective::publish() {
  is_published_ = true;
  group_->begin();
  CollectiveDescription& part = group_->description(group_->rank());
  part.operation = static_cast<std::int32_t>(tensors_.operation);
  part.dtype = static_cast<std::int32_t>(dtype_);
  part.reduction = tensors_.reduction.has_value() ? static_cast<std::int32_t>(*tensors_.reduction) : -1;
  part.root = static_cast<std::int32_t>(tensors_.root.value_or(-1));
  part.list_length = tensors_.list_length;
  part.is_in_device_memory = is_small_ ? 0 : 1;
  std::uint64_t used = 0;
  int previous = -1;  // the last rank so far, other than this rank, with a block
  for (int rank = 0; rank < group_->size(); rank++) {
    part.expected[rank] = bytes_from(rank);
    const at::Tensor tensor = tensor_for(rank);
    Block& block = part.sent[rank];
    block = {bytes_of(tensor), 0};
    if (block.bytes == 0 || rank == group_->rank()) {
      continue;  // this rank's block_from() reads the tensor itself
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

bool SharedCollective::are_descriptions_consistent() const {
  const CollectiveDescription& own = group_->description(group_->rank());
  for (int sender = 0; sender < group_->size(); sender++) {
    const CollectiveDescription& part = group_->description(sender);
    if (!part.is_like(own)) {
      return false;
    }
    for (int receiver = 0; receiver < group_->size(); receiver++) {
      if (part.sent[receiver].bytes != group_->description(receiver).expected[sender]) {
        return false;
      }
    }
  }
  return true;
}

std::string SharedCollective::describe_difference() const {
  std::ostringstream text;
  text << "the ranks' collectives or tensors differ:";
  for (int rank = 0; rank < group_->size(); rank++) {
    const CollectiveDescription& part = group_->description(rank);
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
    if (part.list_length > 0) {
      text << " (a list of " << part.list_length << " tensors)";
    }
    text << ", sends blocks of up to " << sent << " bytes and expects up to " << expected << " bytes";
  }
  for (int sender = 0; sender < group_->size(); sender++) {
    for (int receiver = 0; receiver < group_->size(); receiver++) {
      const std::uint64_t sent = group_->description(sender).sent[receiver].bytes;
      const std::uint64_t expected = group_->description(receiver).expected[sender];
      if (sent != expected) {
        text << "; rank " << sender << " sends " << sent << " bytes to rank " << receiver
             << ", which expects " << expected;
        return text.str();
      }
    }
  }
  return text.str();
}

bool SharedCollective::is_any_in_device_memory() const {
  for (int rank = 0; rank < group_->size(); rank++) {
    if (group_->description(rank).is_in_device_memory != 0) {
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
  const CollectiveDescription& part = group_->description(rank);
  const char* start =
      part.is_in_device_memory == 0 ? group_->small_part_memory(rank) : group_->device_memory(rank);
  return start + part.sent[group_->rank()].offset;
}

// Returns the tensor to which a result is written: a temporary tensor if the results are staged, otherwise
// `result` itself.
at::Tensor SharedCollective::target_of_result(const at::Tensor& result) {
  if (!is_staged_) {
    return result;
  }
  staged_.emplace_back(result, at::empty_like(result));
  return staged_.back().second;
}

// Copies the blocks of all ranks into this rank's tensors, or reduces them.
void SharedCollective::receive() {
  if (tensors_.reduced.defined()) {
    if (tensors_.reduced.numel() > 0) {
      c10::SmallVector<const char*, 8> blocks;
      for (int rank = 0; rank < group_->size(); rank++) {
        blocks.push_back(block_from(rank));
      }
      reduce_parts(start_of(target_of_result(tensors_.reduced)),
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
    char* to = start_of(target_of_result(tensors_.received[static_cast<std::size_t>(rank)]));
    const char* from = block_from(rank);
    if (to != from) {  // the input of a rank may be its part of the output
      std::memcpy(to, from, bytes);
    }
  }
}

// Copies staged results into this rank's tensors, once no rank reads the memory of this rank.
void SharedCollective::copy_staged_results() {
  for (const auto& [result, values] : staged_) {
    std::memcpy(start_of(result), start_of(values), bytes_of(values));
  }
  staged_.clear();
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

bool SharedCollective::try_at_once() noexcept {
  start_ = std::chrono::steady_clock::now();
  if (!is_small() || is_staged_ || !group_->is_usable() ||
      !group_->arrive_within_yield_time(group_->published_step()) || !was_latest_consistent()) {
    return false;
  }
  publish();
  if (needs_no_other_rank(group_->description(group_->rank()), group_->rank(), group_->size())) {
    receive();
    return true;
  }
  if (!group_->arrive_within_yield_time(group_->step()) || !are_descriptions_consistent() ||
      group_->failed_rank() >= 0 || is_any_in_device_memory()) {
    return false;
  }
  receive();
  return true;
}

// Returns false if all ranks completed the latest collective without waiting, and the ranks had called
// different collectives.
bool SharedCollective::was_latest_consistent() const {
  if (group_->is_latest_checked()) {
    return true;
  }
  for (int rank = 0; rank < group_->size(); rank++) {
    if (!needs_no_other_rank(group_->description(rank), rank, group_->size())) {
      return true;  // this rank has waited and reported the difference
    }
  }
  return are_descriptions_consistent();
}

bool SharedCollective::finish(std::chrono::milliseconds slow_after, std::function<void()> on_slow) {
  if (start_ == std::chrono::steady_clock::time_point()) {
    start_ = std::chrono::steady_clock::now();
  }
  return run_step(*group_, [&] {
    WaitLimits limits{start_, timeout_, slow_after, std::move(on_slow)};
    if (!is_published_) {
      group_->wait(group_->published_step(), limits);
      if (!was_latest_consistent()) {
        const std::string difference = describe_difference();
        group_->set_latest_checked();
        throw DifferentCollectives("in the collective before, " + difference);
      }
      publish();
    }
    if (needs_no_other_rank(group_->description(group_->rank()), group_->rank(), group_->size())) {
      receive();
      copy_staged_results();
      return true;
    }
    group_->wait(group_->step(), limits);
    group_->require_no_failure();
    if (!are_descriptions_consistent()) {
      throw DifferentCollectives(describe_difference());
    }
    if (!is_any_in_device_memory()) {
      receive();
      copy_staged_results();
      return true;
    }
    if (!group_->share_device_memory(limits)) {
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
    copy_staged_results();
    return true;
  });
}

bool SharedCollective::finish_all(const std::vector<std::shared_ptr<SharedCollective>>& collectives,
                                  std::chrono::milliseconds slow_after,
                                  const std::function<void()>& on_slow) {
  if (collectives.size() > 1) {
    // Before the first collective, the ranks decide whether shared memory or gloo carries out all of them:
    // after a switch to gloo in the middle, gloo would repeat an all-reduce. A collective without tensors
    // makes this decision, because its part is treated as large.
    const SharedCollective& first = *collectives.front();
    SharedCollective list(
        first.group_,
        {.operation = c10d::OpType::COALESCED, .list_length = static_cast<std::uint32_t>(collectives.size())},
        first.timeout_);
    if (!list.finish(slow_after, on_slow)) {
      return false;
    }
  }
  for (const auto& collective : collectives) {
    if (!collective->finish(slow_after, on_slow)) {
      return false;
    }
  }
  return true;
}

}  // namespace hpu_reference::distributed
