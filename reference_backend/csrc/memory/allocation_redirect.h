// Redirection of torch's CPU allocator: while a kernel runs, its CPU allocations are served from the device's
// arena.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <vector>

namespace hpu_reference::memory {

// Installs the redirecting allocator in front of torch's CPU allocator. Called once, when the library is
// loaded.
void install_allocation_redirect();

// Returns the redirecting CPU allocator.
c10::Allocator* host_allocator();

// Frees the scratch block that starts at this host address.
void free_scratch(void* host);

// Returns true if the memory is a scratch block that no device storage has adopted.
inline bool is_scratch(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &free_scratch;
}

// Scope in which CPU allocations of this thread are scratch blocks of the arena, so that the result of a CPU
// kernel can become a device tensor without a copy. Worker threads of the kernel allocate from the heap.
class AllocationRedirect {
 public:
  // If `enabled` is false, allocations come from the heap.
  explicit AllocationRedirect(bool enabled = true);
  ~AllocationRedirect();
  // Ends the redirection before the scope ends.
  void end();
  AllocationRedirect(const AllocationRedirect&) = delete;
  AllocationRedirect& operator=(const AllocationRedirect&) = delete;

 private:
  int before_;
};

// Scope in which the redirections of this thread log their allocations, in order.
class AllocationLog {
 public:
  AllocationLog();
  ~AllocationLog();
  AllocationLog(const AllocationLog&) = delete;
  AllocationLog& operator=(const AllocationLog&) = delete;

  // Returns the position of the allocation that starts at this host address, or -1.
  int position(const void* address) const;
  void add(const void* address) {
    addresses_.push_back(address);
  }

 private:
  std::vector<const void*> addresses_;
  AllocationLog* before_;
};

// Memory for one allocation of a kernel, so that the output lands in the memory of `storage`.
struct OutputPlacement {
  int position;  // index among the kernel's allocations
  std::size_t bytes;
  c10::StorageImpl* storage;
};

// Scope in which CPU allocations of this thread at the given positions get the memory of the placements;
// other allocations come from the heap. Covers one kernel only.
class OutputPlacementScope {
 public:
  explicit OutputPlacementScope(c10::ArrayRef<OutputPlacement> output_placements);
  ~OutputPlacementScope();
  OutputPlacementScope(const OutputPlacementScope&) = delete;
  OutputPlacementScope& operator=(const OutputPlacementScope&) = delete;

 private:
  friend class RedirectingAllocator;
  c10::ArrayRef<OutputPlacement> placements_;
  int position_ = 0;
  int before_;
  OutputPlacementScope* outer_;
};

}  // namespace hpu_reference::memory
