// Recordings of the device's activity, for profilers written in Python.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "runtime/trace.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

// Returns a tuple (kind, name, stream, start, end, correlation, bytes) for each row, and the number of
// dropped rows.
py::tuple end(runtime::TraceRecording& recording) {
  runtime::Trace trace;
  {
    const py::gil_scoped_release release;
    trace = recording.end();
  }
  py::list rows(trace.rows.size());
  for (std::size_t i = 0; i < trace.rows.size(); i++) {
    const runtime::TraceRow& row = trace.rows[i];
    rows[i] = py::make_tuple(runtime::name_of(row.kind),
                             row.name,
                             row.queue,
                             row.start,
                             row.end,
                             row.correlation,
                             row.bytes < 0 ? py::none() : py::cast(row.bytes));
  }
  return py::make_tuple(rows, trace.dropped);
}

}  // namespace

void bind_traces(py::module& m) {
  py::class_<runtime::TraceRecording>(m, "TraceRecording", "Records the device's activity until end().")
      .def(py::init<>(), py::call_guard<py::gil_scoped_release>())
      .def("end", &end);
  m.def("is_tracing", &runtime::is_recording, "Return whether a recording is open.");
  m.def("set_trace_limit", &runtime::set_trace_limit);
  m.def("trace_limit", &runtime::trace_limit);
}

}  // namespace hpu_reference::bindings
