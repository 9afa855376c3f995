// The process group "hccl" for Python, which makes its gloo and passes it in.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "bindings/bindings.h"
#include "distributed/operators.h"
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
        const py::gil_scoped_release unlocked;  // it waits for the other ranks
        return c10::make_intrusive<distributed::ProcessGroupHccl>(gloo, store, rank, size, timeout);
      },
      py::arg("gloo"),
      py::arg("store"),
      py::arg("rank"),
      py::arg("size"),
      py::arg("timeout"),
      "A backend for hpu tensors, carried by a gloo backend over the same ranks; the timeout is that of "
      "gloo.");
  m.def(
      "shares_memory",
      [](const Backend& backend) {
        const auto* hccl = dynamic_cast<distributed::ProcessGroupHccl*>(backend.get());
        return hccl != nullptr && hccl->shares_memory();
      },
      py::arg("backend"),
      "True if it is an hccl backend whose ranks reduce in memory that they share.");
  m.def(
      "set_between_graphs",
      [](const std::optional<py::function>& between) {
        if (!between.has_value()) {
          distributed::set_between_graphs({});
          return;
        }
        // Shared and never freed without the interpreter's lock.
        auto* function = new py::function(*between);
        distributed::set_between_graphs([function](std::function<void()> issue) {
          const py::gil_scoped_acquire lock;
          try {
            (*function)(py::cpp_function(std::move(issue), py::call_guard<py::gil_scoped_release>()));
          } catch (py::error_already_set& error) {
            TORCH_CHECK(false, error.what());
          }
        });
      },
      py::arg("between"),
      "What is done about a collective in a capture: called with a function that issues it. None: refused.");
}

}  // namespace hpu_reference::bindings
