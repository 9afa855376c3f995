// The process group "hccl" for Python, which makes its gloo and hands it over.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "bindings/bindings.h"
#include "distributed/process_group.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

void bind_distributed(py::module& m) {
  using Backend = c10::intrusive_ptr<c10d::Backend>;
  // As a plain Backend, a class that torch has bound itself.
  m.def(
      "create_hccl",
      [](const Backend& gloo,
         const c10::intrusive_ptr<c10d::Store>& store,
         int rank,
         int size,
         std::chrono::milliseconds timeout) -> Backend {
        return c10::make_intrusive<distributed::ProcessGroupHccl>(gloo, store, rank, size, timeout);
      },
      py::arg("gloo"),
      py::arg("store"),
      py::arg("rank"),
      py::arg("size"),
      py::arg("timeout"),
      "A backend for hpu tensors, carried by a gloo backend over the same ranks; the timeout is that of "
      "gloo.");
}

}  // namespace hpu_reference::bindings
