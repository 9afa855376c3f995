// A detour in front of torch's CPU allocator: memory that a running kernel allocates is memory of the device.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <vector>

namespace hpu_reference::memory {

// Puts the detour in front of torch's CPU allocator; runs once, when the library is loaded.
void install_host_detour();

// The CPU allocator with the detour in front of it.
c10::Allocator* host_allocator();

// Frees the scratch block that starts at this host address.
void free_scratch(void* host);

// True if the memory is a scratch block that no storage of the device has adopted.
inline bool is_scratch(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &free_scratch;
}

// Scope in which CPU allocations of this thread are scratch blocks of the arena, so that a CPU kernel's
// result can become a device tensor without a copy. Worker threads of the kernel allocate from the heap.
class HostDetour {
 public:
  // `enabled` off: allocations come from the heap.
  explicit HostDetour(bool enabled = true);
  ~HostDetour();
  // Ends the detour before the scope does.
  void end();
  HostDetour(const HostDetour&) = delete;
  HostDetour& operator=(const HostDetour&) = delete;

 private:
  int before_;
};

// Scope in which the detours on this thread log what they allocate, in order.
class AllocationLog {
 public:
  AllocationLog();
  ~AllocationLog();
  AllocationLog(const AllocationLog&) = delete;
  AllocationLog& operator=(const AllocationLog&) = delete;

  // Position of the allocation that starts at this host address, or -1.
  int position(const void* address) const;
  // Logs an allocation.
  void add(const void* address) {
    addresses_.push_back(address);
  }

 private:
  std::vector<const void*> addresses_;
  AllocationLog* before_;
};

// Memory for one of a kernel's allocations, so that its result lands in the memory of `storage`.
struct Donation {
  int position;  // among the kernel's allocations
  std::size_t bytes;
  c10::StorageImpl* storage;
};

// Scope in which the CPU allocations of this thread at the given positions get the donated memory; the others
// come from the heap. Covers one kernel only.
class DonationScope {
 public:
  explicit DonationScope(c10::ArrayRef<Donation> donations);
  ~DonationScope();
  DonationScope(const DonationScope&) = delete;
  DonationScope& operator=(const DonationScope&) = delete;

 private:
  friend class DetourAllocator;
  c10::ArrayRef<Donation> donations_;
  int position_ = 0;
  int before_;
  DonationScope* outer_;
};

}  // namespace hpu_reference::memory
