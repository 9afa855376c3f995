#include "memory/access_set.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "memory/allocator.h"
#include "memory/allocation_redirect.h"
#include "memory/race_check.h"
#include "runtime/host_access.h"
#include "runtime/vector_clock.h"
#include "runtime/stream.h"

namespace hpu_reference::memory {

namespace {

StreamOrder order_from_environment() {
  const char* text = std::getenv("HPU_REFERENCE_STREAM_ORDER");
  const std::string value = text == nullptr || *text == '\0' ? "memory" : text;
  TORCH_CHECK(
      value == "memory" || value == "events",
      "HPU_REFERENCE_STREAM_ORDER='",
      value,
      "' is not known; give memory (streams are ordered by the memory they use) or events (as on CUDA)");
  return value == "events" ? StreamOrder::Events : StreamOrder::Memory;
}

}  // namespace

StreamOrder stream_order() {
  static const StreamOrder order = [] {
    const StreamOrder given = order_from_environment();
    if (given == StreamOrder::Events) {
      runtime::start_order_clocks();
      runtime::g_attention.fetch_add(1);  // every use of memory is looked at
    }
    return given;
  }();
  return order;
}

void Footprint::add(const c10::StorageImpl* device, bool written) {
  if (Block* block = block_of(device->data_ptr())) {
    add(block, written);
  }
}

void Footprint::add_address(const void* device, bool written) {
  if (Block* block = pool().block_at(arena().to_host(device))) {
    add(block, written);
  }
}

std::vector<runtime::QueueMark> Footprint::conflicts(int queue, bool failed) const {
  std::vector<runtime::QueueMark> marks;
  if (stream_order() == StreamOrder::Memory && !uses_.empty()) {
    pool().find_conflicts(uses_, queue, failed, marks);
  }
  return marks;
}

bool Footprint::has_conflicts(c10::StreamId stream) const {
  return !conflicts(runtime::queue_of(stream)).empty();
}

void Footprint::wait(c10::StreamId stream, bool surface) const {
  for (const runtime::QueueMark& mark : conflicts(runtime::queue_of(stream), /*failed=*/surface)) {
    runtime::wait_for(mark);
    if (surface) {
      runtime::surface_error(mark.queue);
    }
  }
}

void Footprint::check(c10::StreamId stream, const std::string& name) const {
  if (stream_order() == StreamOrder::Events) {
    check_order(uses_, stream, name);
  }
}

void Footprint::enqueue(c10::StreamId stream, std::unique_ptr<runtime::Work> work, bool keeps) const {
  if (stream_order() == StreamOrder::Events) {
    for (const BlockUse& use : uses_) {  // before the check: another thread may free the memory meanwhile
      if (keeps) {
        pool().record_stream(use.block, stream);
      }
    }
    check_order(uses_, stream, work->name());
  }
  const runtime::QueueMark mark =
      runtime::enqueue(stream, std::move(work), conflicts(runtime::queue_of(stream)));
  if (stream_order() == StreamOrder::Memory) {
    pool().note_uses(uses_, mark);
  }
}

bool may_have_users(const c10::StorageImpl* device) {
  const Block* block = block_of(device->data_ptr());
  return block != nullptr && block->has_users.load(std::memory_order_acquire);
}

void use_now(const c10::StorageImpl* device, bool written, bool surface, const char* name) {
  if (C10_UNLIKELY(runtime::has_order_clocks())) {
    Block* block = block_of(device->data_ptr());
    if (block != nullptr && !runtime::is_running_work()) {
      const BlockUse use{block, written};
      check_order(use, runtime::current_stream_id(), name);
    }
  }
  wait_for_users(device, written, surface);
}

void wait_for_users(const c10::StorageImpl* device, bool written, bool surface) {
  if (may_have_users(device) && !runtime::runs_inline()) {
    const HostDetour off(false);  // this thread may help with work whose allocations are the host's
    Footprint footprint;
    footprint.add(device, written);
    footprint.wait(runtime::current_stream_id(), surface);
  }
}

}  // namespace hpu_reference::memory
