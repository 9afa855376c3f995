#include "memory/access_set.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "memory/race_check.h"
#include "runtime/host_access.h"
#include "runtime/stream.h"
#include "runtime/vector_clock.h"

namespace hpu_reference::memory {

namespace {

StreamOrder order_from_environment() {
  const char* text = std::getenv("HPU_REFERENCE_STREAM_ORDER");
  const std::string value = text == nullptr || *text == '\0' ? "memory" : text;
  TORCH_CHECK(value == "memory" || value == "events",
              "HPU_REFERENCE_STREAM_ORDER='",
              value,
              "' is not a stream order; use memory (streams are ordered by the memory they access) or events "
              "(as on CUDA)");
  return value == "events" ? StreamOrder::Events : StreamOrder::Memory;
}

}  // namespace

StreamOrder stream_order() {
  static const StreamOrder order = [] {
    const StreamOrder chosen_order = order_from_environment();
    if (chosen_order == StreamOrder::Events) {
      runtime::enable_vector_clocks();
      runtime::g_pending_work.fetch_add(1);  // each use of memory then takes the slow path, which checks it
    }
    return chosen_order;
  }();
  return order;
}

void AccessSet::add(const c10::StorageImpl* device, bool written) {
  if (Block* block = block_of(device->data_ptr())) {
    add(block, written);
  }
}

void AccessSet::add_address(const void* device, bool written) {
  if (Block* block = pool().block_at(arena().to_host(device))) {
    add(block, written);
  }
}

std::vector<runtime::QueueMark> AccessSet::conflicts(int queue, bool failed) const {
  std::vector<runtime::QueueMark> marks;
  if (stream_order() == StreamOrder::Memory && !uses_.empty()) {
    pool().find_conflicts(uses_, queue, failed, marks);
  }
  return marks;
}

bool AccessSet::has_conflicts(c10::StreamId stream) const {
  return !conflicts(runtime::queue_of(stream)).empty();
}

void AccessSet::wait(c10::StreamId stream, bool throw_errors) const {
  for (const runtime::QueueMark& mark : conflicts(runtime::queue_of(stream), /*failed=*/throw_errors)) {
    runtime::wait_for(mark);
    if (throw_errors) {
      runtime::throw_queue_error(mark.queue);
    }
  }
}

void AccessSet::check(c10::StreamId stream, const std::string& name) const {
  if (stream_order() == StreamOrder::Events) {
    check_races(uses_, stream, name);
  }
}

void AccessSet::enqueue(c10::StreamId stream, std::unique_ptr<runtime::Work> work, bool retain_memory) const {
  if (stream_order() == StreamOrder::Events) {
    // Retain the memory before the check, because another thread may free the memory during the check.
    for (const BlockUse& use : uses_) {
      if (retain_memory) {
        pool().record_stream(use.block, stream);
      }
    }
    check_races(uses_, stream, work->name());
  }
  const runtime::QueueMark mark =
      runtime::enqueue(stream, std::move(work), conflicts(runtime::queue_of(stream)));
  if (stream_order() == StreamOrder::Memory) {
    pool().record_uses(uses_, mark);
  }
}

bool may_have_users(const c10::StorageImpl* device) {
  const Block* block = block_of(device->data_ptr());
  return block != nullptr && block->has_users.load(std::memory_order_acquire);
}

void wait_and_check_races(const c10::StorageImpl* device, bool written, bool throw_errors, const char* name) {
  if (C10_UNLIKELY(runtime::are_vector_clocks_enabled())) {
    Block* block = block_of(device->data_ptr());
    if (block != nullptr && !runtime::is_running_work()) {
      const BlockUse use{block, written};
      check_races(use, runtime::current_stream_id(), name);
    }
  }
  wait_for_users(device, written, throw_errors);
}

void wait_for_users(const c10::StorageImpl* device, bool written, bool throw_errors) {
  if (may_have_users(device) && !runtime::must_run_inline()) {
    const AllocationRedirect off(false);  // this thread may run queued work, which allocates host memory
    AccessSet access_set;
    access_set.add(device, written);
    access_set.wait(runtime::current_stream_id(), throw_errors);
  }
}

}  // namespace hpu_reference::memory
