// Which kernel the device registers for which operator.
#pragma once

#include <string>
#include <vector>

namespace hpu_reference::dispatch {

struct KernelEntry {
  std::string key;   // "HPU", "SparseHPU", "SparseCsrHPU", "QuantizedHPU", "NestedTensorHPU"
  std::string name;  // "aten::add.Tensor"
  std::string kind;  // "host" (CPU kernel on host views), "fallback"
};

// Registers the boxed kernel for every operator that has a CPU kernel and none of the device's own. Runs
// once, when the library is loaded, after all static registrations.
void register_host_kernels();

// What register_host_kernels() did, sorted.
const std::vector<KernelEntry>& kernel_table();

}  // namespace hpu_reference::dispatch
