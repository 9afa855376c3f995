#include "memory/allocation_redirect.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "memory/allocator.h"
#include "runtime/fork.h"

namespace hpu_reference::memory {

namespace {

// Source of this thread's CPU allocations.
enum AllocationTarget : int { kHeap, kArena, kLogged, kPlacedOutput };
thread_local int tls_allocation_target = kHeap;
thread_local AllocationLog* tls_log = nullptr;
thread_local OutputPlacementScope* tls_output_placements = nullptr;

c10::DeleterFnPtr g_free_heap = nullptr;

// The deleter for raw_deallocate(), which receives the address only.
void free_host(void* host) {
  if (has_pool() && arena().contains_host(host)) {
    free_scratch(host);
  } else {
    g_free_heap(host);
  }
}

}  // namespace

// The allocator in front of torch's CPU allocator. It costs ordinary CPU allocations one thread-local read.
class RedirectingAllocator final : public c10::Allocator {
 public:
  explicit RedirectingAllocator(c10::Allocator* heap) : heap_(heap) {
  }

  c10::DataPtr allocate(std::size_t size) override {
    if (tls_allocation_target == kHeap) {
      return heap_->allocate(size);
    }
    if (C10_UNLIKELY(runtime::is_forked_child())) {
      return heap_->allocate(size);  // forked inside a call: the arena belongs to the parent
    }
    if (tls_allocation_target == kPlacedOutput) {
      return placed_output(size);
    }
    if (size == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    // The host writes this memory at once, so it must not be memory that queued work of another thread still
    // reads.
    Block* block = allocate_block(size, /*scratch=*/true, /*in_order=*/false);
    void* host = arena().to_host(block->device);
    if (C10_UNLIKELY(tls_allocation_target == kLogged)) {
      tls_log->add(host);
    }
    return {host, host, &free_scratch, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_host;
  }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    std::memcpy(destination, source, count);
  }

 private:
  // Only allocations with a size above 0 have a position, here and in an AllocationLog.
  c10::DataPtr placed_output(std::size_t size) {
    if (size > 0) {
      const int position = tls_output_placements->position_++;
      for (const OutputPlacement& placement : tls_output_placements->placements_) {
        if (placement.position == position && size <= placement.bytes) {
          void* host = const_cast<void*>(placement.storage->data());
          return {host, host, &keep_placed_output, c10::Device(c10::DeviceType::CPU)};
        }
      }
    }
    return heap_->allocate(size);
  }
  static void keep_placed_output(void*) {
  }

  c10::Allocator* heap_;
};

namespace {
RedirectingAllocator* g_redirecting_allocator = nullptr;
}

// The context of a scratch block is its host address, because torch's raw_allocate() requires that.
void free_scratch(void* host) {
  if (!runtime::is_forked_child()) {
    pool().free(pool().block_at(host));
  }
}

c10::Allocator* host_allocator() {
  return g_redirecting_allocator;
}

void install_allocation_redirect() {
  c10::Allocator* heap = c10::GetCPUAllocator();
  g_free_heap = heap->raw_deleter();
  g_redirecting_allocator = new RedirectingAllocator(heap);
  c10::SetCPUAllocator(g_redirecting_allocator, /*priority=*/255);
}

AllocationRedirect::AllocationRedirect(bool enabled) : before_(tls_allocation_target) {
  tls_allocation_target = !enabled ? kHeap : tls_log != nullptr ? kLogged : kArena;
}

AllocationRedirect::~AllocationRedirect() {
  tls_allocation_target = before_;
}

void AllocationRedirect::end() {
  tls_allocation_target = before_;
}

AllocationLog::AllocationLog() : before_(tls_log) {
  tls_log = this;
}

AllocationLog::~AllocationLog() {
  tls_log = before_;
}

int AllocationLog::position(const void* address) const {
  // Search from the end: the memory of an earlier allocation may have been freed and allocated again.
  for (std::size_t i = addresses_.size(); i-- > 0;) {
    if (addresses_[i] == address) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

OutputPlacementScope::OutputPlacementScope(c10::ArrayRef<OutputPlacement> output_placements)
    : placements_(output_placements), before_(tls_allocation_target), outer_(tls_output_placements) {
  tls_output_placements = this;
  tls_allocation_target = kPlacedOutput;
}

OutputPlacementScope::~OutputPlacementScope() {
  tls_allocation_target = before_;
  tls_output_placements = outer_;
}

}  // namespace hpu_reference::memory
