// Functions that add the parts of the core to the Python module habana_frameworks.torch._C.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace hpu_reference::bindings {

// Binds graph captures, recipes and lazy mode.
void bind_graphs(pybind11::module& m);
// Binds static programs.
void bind_static_programs(pybind11::module& m);
// Binds the engine's settings and counters.
void bind_engine(pybind11::module& m);
// Binds the history of the device's memory.
void bind_memory_history(pybind11::module& m);
// Binds the recording of the device's activity, for profilers.
void bind_traces(pybind11::module& m);
// Binds the log.
void bind_log(pybind11::module& m);
// Binds the process group "hccl".
void bind_distributed(pybind11::module& m);

}  // namespace hpu_reference::bindings
