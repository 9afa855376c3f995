// The Python module habana_frameworks.torch._C: functions of the device that torch's own Python API does not
// have.
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "device/kineto.h"
#include "device_key.h"
#include "dispatch/autocast.h"
#include "dispatch/copies.h"
#include "dispatch/fallback.h"
#include "dispatch/kernel_table.h"
#include "kernels/hardware_limits.h"
#include "kernels/host_call.h"
#include "memory/allocation_redirect.h"
#include "memory/allocator.h"
#include "runtime/device.h"
#include "runtime/fork.h"
#include "runtime/generator.h"
#include "runtime/stream.h"
#include "runtime/thread_state.h"

namespace py = pybind11;
using namespace hpu_reference;

namespace {

memory::PoolStatistics statistics() {
  runtime::acquire();
  return memory::pool().statistics();
}

std::map<std::string, std::int64_t> memory_stats() {
  const auto stats = statistics();
  return {{"Limit", stats.limit},
          {"InUse", stats.in_use},
          {"MaxInUse", stats.max_in_use},
          {"NumAllocs", stats.allocations},
          {"NumFrees", stats.frees},
          {"ActiveAllocs", stats.active},
          {"MaxAllocSize", stats.largest},
          {"TotalSystemAllocs", stats.total_allocations},
          {"TotalSystemFrees", stats.total_frees},
          {"TotalActiveAllocs", stats.active}};
}

std::map<std::string, std::int64_t> extended_memory_stats() {
  const auto stats = statistics();
  return {{"limit", stats.limit},
          {"in_use", stats.in_use},
          {"scratch", stats.scratch},
          {"deferred", stats.deferred},
          {"max_in_use", stats.max_in_use},
          {"num_allocs", stats.allocations},
          {"num_free", stats.frees},
          {"max_alloc_size", stats.largest},
          {"active_allocs", stats.active},
          {"max_cntgs_chunk", stats.largest_free},
          {"num_alloc_retries", stats.retries},
          {"num_ooms", stats.out_of_memory}};
}

// Returns a CPU tensor over the bytes of the device tensor. The CPU tensor keeps the device tensor alive.
at::Tensor debug_host_view(const at::Tensor& tensor) {
  TORCH_CHECK(kernels::is_device_tensor(tensor),
              "host_view needs a tensor on " DEVICE_NAME ", but got one on ",
              tensor.device());
  const at::Tensor view = kernels::host_view(tensor);
  void* start = const_cast<void*>(view.storage().data());
  auto* owner = new at::Tensor(tensor);
  c10::Storage storage(
      c10::Storage::use_byte_size_t(),
      view.storage().nbytes(),
      c10::DataPtr(
          start, owner, [](void* context) { delete static_cast<at::Tensor*>(context); }, at::kCPU),
      nullptr,
      /*resizable=*/false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), view.dtype());
  impl->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
  return at::Tensor(std::move(impl));
}

}  // namespace

PYBIND11_MODULE(_C, m) {
#ifdef HPU_REFERENCE_PRIVATEUSE1
  c10::register_privateuse1_backend(DEVICE_NAME);
#endif
  m.attr("DEVICE_TYPE") = DEVICE_NAME;
  memory::install_allocation_redirect();
  dispatch::register_host_kernels();
  device::register_profiler();

  m.def("init", &runtime::acquire, "Acquire the device; raises RuntimeError in a forked child.");
  m.def("is_initialized", &runtime::is_initialized);
  m.def("is_in_bad_fork", &runtime::is_forked_child);
  m.def("device_count", [] { return static_cast<int>(runtime::device_count()); });
  m.def("has_backward_threads", &runtime::has_backward_threads);
  m.def("finish_work",
        &runtime::finish_work,
        py::call_guard<py::gil_scoped_release>(),
        "Wait for all work. The next call that reads data raises any error of the work.");
  m.def("synchronize", &runtime::synchronize_device, py::call_guard<py::gil_scoped_release>());
  m.def("memory_stats", &memory_stats);
  m.def("extended_memory_stats", &extended_memory_stats);
  m.def("reset_peak_memory_stats", [] {
    runtime::acquire();
    memory::pool().reset_peak();
  });
  m.def("reset_accumulated_memory_stats", [] {
    runtime::acquire();
    memory::pool().reset_accumulated();
    memory::pool().reset_totals();  // torch.accelerator builds its table from these counters
  });
  m.def("empty_cache", [] { memory::device_allocator()->emptyCache(); });
  m.def("set_memory_limit", [](std::size_t bytes) {
    runtime::acquire();
    memory::pool().set_limit(bytes);
  });
  m.def("set_defragmentation", &memory::set_defragmentation, py::arg("on"));
  m.def("default_generator", [] {
    return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(runtime::default_generator()));
  });
  m.def("fallback_counts", &dispatch::fallback_counts);
  m.def("reset_fallback_counts", &dispatch::reset_fallback_counts);
  m.def("set_fallback_policy", &dispatch::set_fallback_policy);
  m.def("set_autocast_lists", &dispatch::register_autocast, py::arg("lower"), py::arg("fp32"));
  m.def("autocast_lists", &dispatch::autocast_lists);
  m.def("has_hardware_limits",
        &kernels::has_hardware_limits,
        "Return whether hardware limits are enabled (HPU_REFERENCE_PROFILE).");
  m.def("largest_e4m3", &kernels::largest_e4m3);
  m.def("set_wide_integers", &kernels::set_wide_integers);
  m.def("set_range_check", &kernels::set_range_check);
  m.def("set_tanh_gelu", &kernels::set_tanh_gelu);
  m.def("set_sync_debug_mode", &runtime::set_sync_debug_mode);
  m.def("set_stream_limit", &runtime::set_stream_limit, py::arg("limit"));
  m.def("new_internal_stream", &runtime::new_internal_stream);
  m.def("set_copy_queue",
        &dispatch::set_copy_queue,
        py::arg("to_device"),
        py::arg("to_host"),
        py::arg("smallest"));
  m.def("get_sync_debug_mode", &runtime::is_sync_debug_mode);
  bindings::bind_engine(m);
  bindings::bind_graphs(m);
  bindings::bind_static_programs(m);
  bindings::bind_distributed(m);
  bindings::bind_traces(m);
  bindings::bind_log(m);
  bindings::bind_memory_history(m);
  m.def("host_view", &debug_host_view, "Return a CPU tensor over the same bytes, for debugging.");
  m.def("kernel_table", [] {
    std::vector<std::tuple<std::string, std::string, std::string>> rows;
    for (const auto& entry : dispatch::kernel_table()) {
      rows.emplace_back(entry.key, entry.name, entry.kind);
    }
    return rows;
  });
}
