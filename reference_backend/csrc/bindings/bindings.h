// The parts of habana_frameworks.torch._C.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace hpu_reference::bindings {

void bind_graphs(pybind11::module& m);
void bind_engine(pybind11::module& m);
void bind_distributed(pybind11::module& m);

}  // namespace hpu_reference::bindings
