// A detour in front of torch's CPU allocator: while a kernel runs, what it allocates is memory of the device.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <vector>

namespace hpu_reference::memory {

// Runs once at load: puts the detour in front of torch's CPU allocator.
void install_host_detour();

// The CPU allocator with the detour in front of it.
c10::Allocator* host_allocator();

// Frees the scratch block that starts at this host address.
void free_scratch(void* host);

// Whether the memory is a scratch block that nobody has adopted.
inline bool is_scratch(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &free_scratch;
}

// While one lives, CPU allocations of this thread are scratch blocks of the arena, so that what a CPU kernel
// makes can become a device tensor without a copy. Worker threads of the kernel allocate from the heap.
class HostDetour {
 public:
  explicit HostDetour(bool enabled = true);
  ~HostDetour();
  void end();
  HostDetour(const HostDetour&) = delete;
  HostDetour& operator=(const HostDetour&) = delete;

 private:
  int before_;
};

// While one lives on a thread, the detours inside it write down what they allocate, in order.
class AllocationLog {
 public:
  AllocationLog();
  ~AllocationLog();
  AllocationLog(const AllocationLog&) = delete;
  AllocationLog& operator=(const AllocationLog&) = delete;

  // Position of the allocation that starts at this host address, or -1.
  int position(const void* address) const;
  void add(const void* address) {
    addresses_.push_back(address);
  }

 private:
  std::vector<const void*> addresses_;
  AllocationLog* before_;
};

// Memory for one of the allocations of a kernel: its result is to be where `storage` points.
struct Donation {
  int position;  // among the kernel's allocations
  std::size_t bytes;
  c10::StorageImpl* storage;
};

// While one lives, the CPU allocations of this thread at the given positions get the donated memory; the
// others come from the heap. Must not be given more than one kernel to run.
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
