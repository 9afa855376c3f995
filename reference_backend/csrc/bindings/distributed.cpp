// The process group "hccl" for Python, which creates the gloo backend and passes it in.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "bindings/bindings.h"
#include "bindings/tracebacks.h"
#include "distributed/flight_recorder.h"
#include "distributed/operators.h"
#include "distributed/process_group.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

// Returns a dictionary for each recorded collective; "frames" has torch's format.
py::list flight_record_rows() {
  torch::freeDeadCapturedTracebackFrames();
  const std::vector<distributed::FlightEntry> entries = distributed::recorded_collectives();
  std::vector<torch::CapturedTraceback*> stacks;
  for (const auto& entry : entries) {
    if (entry.stack != nullptr) {
      stacks.push_back(static_cast<torch::CapturedTraceback*>(entry.stack.get()));
    }
  }
  const std::vector<py::object> frames = torch::py_symbolize(stacks);
  std::size_t next = 0;
  py::list rows;
  for (const auto& entry : entries) {
    py::dict row;
    row["id"] = entry.id;
    row["operation"] = entry.request.operation;
    row["group"] = entry.request.group;
    row["description"] = entry.request.description;
    row["sequence"] = entry.request.sequence;
    row["message"] = entry.message;
    row["peer"] = entry.request.peer;
    row["rank"] = entry.request.rank;
    row["timeout_ms"] = entry.request.timeout.count();
    row["created"] = entry.created;
    row["started"] = entry.started;
    row["completed"] = entry.completed;
    row["failed"] = entry.failed;
    row["input_sizes"] = entry.input_sizes;
    row["output_sizes"] = entry.output_sizes;
    row["input_dtypes"] = entry.input_dtypes;
    row["output_dtypes"] = entry.output_dtypes;
    row["frames"] = entry.stack == nullptr ? py::list() : frames[next++];
    rows.append(row);
  }
  return rows;
}

}  // namespace

void bind_distributed(py::module& m) {
  using Backend = c10::intrusive_ptr<c10d::Backend>;
  // The return type is Backend, which torch binds. ProcessGroupHccl has no Python class of its own.
  m.def(
      "create_hccl",
      [](const Backend& gloo,
         const c10::intrusive_ptr<c10d::Store>& store,
         int rank,
         int size,
         std::chrono::milliseconds timeout,
         bool synchronizes_first) -> Backend {
        const py::gil_scoped_release unlocked;  // the constructor waits for the other ranks
        return c10::make_intrusive<distributed::ProcessGroupHccl>(
            gloo, store, rank, size, timeout, synchronizes_first);
      },
      py::arg("gloo"),
      py::arg("store"),
      py::arg("rank"),
      py::arg("size"),
      py::arg("timeout"),
      py::arg("synchronizes_first") = false,
      "Create a backend for hpu tensors on top of a gloo backend over the same ranks with the same timeout. "
      "If `synchronizes_first` is true, the ranks rendezvous in the store before each collective.");
  m.def(
      "shares_memory",
      [](const Backend& backend) {
        const auto* hccl = dynamic_cast<distributed::ProcessGroupHccl*>(backend.get());
        return hccl != nullptr && hccl->shares_memory();
      },
      py::arg("backend"),
      "Return whether the backend is an hccl backend whose ranks share memory.");
  m.def("set_blocking_collectives", &distributed::set_blocking_collectives, py::arg("on"));
  m.def("recorded_collectives", &flight_record_rows);
  m.def("failed_collectives", &distributed::failed_collectives);
  m.def(
      "set_capture_collective_handler",
      [](const std::optional<py::function>& handler) {
        if (!handler.has_value()) {
          distributed::set_capture_collective_handler({});
          return;
        }
        // Never freed, because the handler may be destroyed without the GIL.
        auto* function = new py::function(*handler);
        distributed::set_capture_collective_handler([function](std::function<void()> issue) {
          const py::gil_scoped_acquire lock;
          try {
            (*function)(py::cpp_function(std::move(issue), py::call_guard<py::gil_scoped_release>()));
          } catch (py::error_already_set& error) {
            TORCH_CHECK(false, error.what());
          }
        });
      },
      py::arg("handler"),
      "Set the handler for collectives that are called during a capture. The handler is called with a "
      "function that issues the collective. If `handler` is None, such a collective raises an error.");
}

}  // namespace hpu_reference::bindings
