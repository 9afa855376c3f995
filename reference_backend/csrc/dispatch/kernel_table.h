// The table of the kernels that the device registers for operators.
#pragma once

#include <string>
#include <vector>

namespace hpu_reference::dispatch {

// A row of the table: one kernel of one operator.
struct KernelEntry {
  std::string key;   // "HPU", "SparseHPU", "SparseCsrHPU", "QuantizedHPU", "NestedTensorHPU"
  std::string name;  // "aten::add.Tensor"
  std::string kind;  // "host" (CPU kernel on host aliases) or "fallback"
};

// Registers the boxed kernel for every operator that has a CPU kernel and no device kernel. Runs once, when
// the library is loaded, after all static registrations.
void register_host_kernels();

// Returns the rows that register_host_kernels() has added, sorted.
const std::vector<KernelEntry>& kernel_table();

}  // namespace hpu_reference::dispatch
