#include "memory/allocation_redirect.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "memory/allocator.h"
#include "runtime/fork.h"

namespace hpu_reference::memory {

namespace {

// Source of this thread's CPU allocations.
enum Detour : int { kHeap, kArena, kLogged, kDonated };
thread_local int tls_detour = kHeap;
thread_local AllocationLog* tls_log = nullptr;
thread_local DonationScope* tls_donations = nullptr;

c10::DeleterFnPtr g_free_heap = nullptr;

// The deleter for raw_deallocate(), which knows the address only.
void free_host(void* host) {
  if (has_pool() && arena().contains_host(host)) {
    free_scratch(host);
  } else {
    g_free_heap(host);
  }
}

}  // namespace

// Sits in front of torch's CPU allocator; costs ordinary CPU allocations one thread-local read.
class DetourAllocator final : public c10::Allocator {
 public:
  explicit DetourAllocator(c10::Allocator* heap) : heap_(heap) {
  }

  c10::DataPtr allocate(std::size_t size) override {
    if (tls_detour == kHeap) {
      return heap_->allocate(size);
    }
    if (C10_UNLIKELY(runtime::is_forked_child())) {
      return heap_->allocate(size);  // forked inside a call: the arena is the parent's
    }
    if (tls_detour == kDonated) {
      return donated(size);
    }
    if (size == 0) {
      return {nullptr, c10::Device(c10::DeviceType::CPU)};
    }
    // Written at once: not memory that queued work of another thread may still read.
    Block* block = allocate_block(size, /*scratch=*/true, /*in_order=*/false);
    void* host = arena().to_host(block->device);
    if (C10_UNLIKELY(tls_detour == kLogged)) {
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
  // A size of 0 takes no position; neither does it when positions are learned.
  c10::DataPtr donated(std::size_t size) {
    if (size > 0) {
      const int position = tls_donations->position_++;
      for (const Donation& donation : tls_donations->donations_) {
        if (donation.position == position && size <= donation.bytes) {
          void* host = const_cast<void*>(donation.storage->data());
          return {host, host, &leave_donation, c10::Device(c10::DeviceType::CPU)};
        }
      }
    }
    return heap_->allocate(size);
  }
  static void leave_donation(void*) {
  }

  c10::Allocator* heap_;
};

namespace {
DetourAllocator* g_detour = nullptr;
}

// The context of a scratch block is its host address: torch's raw_allocate() asks for that.
void free_scratch(void* host) {
  if (!runtime::is_forked_child()) {
    pool().free(pool().block_at(host));
  }
}

c10::Allocator* host_allocator() {
  return g_detour;
}

void install_host_detour() {
  c10::Allocator* heap = c10::GetCPUAllocator();
  g_free_heap = heap->raw_deleter();
  g_detour = new DetourAllocator(heap);
  c10::SetCPUAllocator(g_detour, /*priority=*/255);
}

HostDetour::HostDetour(bool enabled) : before_(tls_detour) {
  tls_detour = !enabled ? kHeap : tls_log != nullptr ? kLogged : kArena;
}

HostDetour::~HostDetour() {
  tls_detour = before_;
}

void HostDetour::end() {
  tls_detour = before_;
}

AllocationLog::AllocationLog() : before_(tls_log) {
  tls_log = this;
}

AllocationLog::~AllocationLog() {
  tls_log = before_;
}

int AllocationLog::position(const void* address) const {
  // The last one: memory of an earlier one may have been given back and handed out again.
  for (std::size_t i = addresses_.size(); i-- > 0;) {
    if (addresses_[i] == address) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

DonationScope::DonationScope(c10::ArrayRef<Donation> donations)
    : donations_(donations), before_(tls_detour), outer_(tls_donations) {
  tls_donations = this;
  tls_detour = kDonated;
}

DonationScope::~DonationScope() {
  tls_detour = before_;
  tls_donations = outer_;
}

}  // namespace hpu_reference::memory
