// The engine's settings and counters: queues, output metadata, telemetry events.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <deque>
#include <mutex>

#include "bindings/bindings.h"
#include "engine/call.h"
#include "engine/engine.h"
#include "engine/output_metadata_cache.h"
#include "graph/prepared_call.h"
#include "memory/race_check.h"
#include "runtime/event_listener.h"
#include "runtime/gil.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "runtime/stream_gate.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

struct TelemetryEvent {
  std::string name;
  std::int64_t microseconds;
  runtime::TelemetryParameters parameters;
};

// Telemetry events may occur on a thread that does not hold the GIL, or that holds the lock of a recorder. So
// they are stored here, and Python's main thread passes them to the callback at its next safe point.
std::mutex g_mutex;
std::deque<TelemetryEvent> g_telemetry_events;
PyObject* g_callback = nullptr;

int deliver_pending_events(void*) {
  for (;;) {
    TelemetryEvent event;
    {
      const std::lock_guard<std::mutex> lock(g_mutex);
      if (g_telemetry_events.empty()) {
        return 0;
      }
      event = std::move(g_telemetry_events.front());
      g_telemetry_events.pop_front();
    }
    if (g_callback == nullptr) {
      continue;
    }
    try {
      py::reinterpret_borrow<py::object>(g_callback)(event.name, event.microseconds, event.parameters);
    } catch (py::error_already_set& error) {
      error.restore();
      PyErr_WriteUnraisable(g_callback);
    }
  }
}

void store_telemetry_event(const char* name, const runtime::TelemetryParameters& parameters) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_telemetry_events.push_back({name, duration_cast<microseconds>(now).count(), parameters});
  }
  Py_AddPendingCall(&deliver_pending_events, nullptr);
}

void set_event_callback(const py::object& callback) {
  PyObject* before = g_callback;
  g_callback = callback.is_none() ? nullptr : callback.inc_ref().ptr();
  Py_XDECREF(before);
  runtime::set_listener(g_callback == nullptr ? runtime::Listener()
                                              : runtime::Listener(&store_telemetry_event));
}

void* release_interpreter() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}

// Returns the file and line of the innermost Python frame outside torch and this package.
std::string current_python_line() {
  if (!Py_IsInitialized()) {
    return "";
  }
  const py::gil_scoped_acquire gil;
  py::object frame = py::module::import("sys").attr("_getframe")(0);
  while (!frame.is_none()) {
    const auto file = frame.attr("f_code").attr("co_filename").cast<std::string>();
    if (file.find("/torch/") == std::string::npos && file.find("habana_frameworks") == std::string::npos) {
      return file + ":" + std::to_string(frame.attr("f_lineno").cast<int>());
    }
    frame = frame.attr("f_back");
  }
  return "";
}

}  // namespace

void bind_engine(py::module& m) {
  runtime::set_gil_functions({&release_interpreter, [](void* released) {
                                PyEval_RestoreThread(static_cast<PyThreadState*>(released));
                              }});
  m.def("set_pipeline", &runtime::set_pipeline_enabled, py::arg("enabled"));
  m.def("set_queue_all",
        &runtime::set_queue_all,
        py::arg("delay_us"),
        py::arg("seed") = 0,
        "Queue every operator that can be deferred, after a delay of up to `delay_us`. -1 disables this.");
  m.def("set_record_lines", [](bool on) {
    engine::set_python_line_source(on ? std::function<std::string()>(&current_python_line)
                                      : std::function<std::string()>());
  });
  m.def("shutdown", &runtime::shutdown_queues, py::call_guard<py::gil_scoped_release>());
  m.def("enqueue_delay",
        [](double seconds) { runtime::enqueue_delay(runtime::current_stream_id(), seconds); });
  py::class_<runtime::StreamGate>(
      m, "Gate", "Blocks later work of the current stream until open() is called.")
      .def(py::init<>())
      .def("enqueue", [](runtime::StreamGate& self) { self.enqueue(runtime::current_stream_id()); })
      .def("open", &runtime::StreamGate::open);
  m.def("engine_counters", [] {
    const auto queues = runtime::queue_counters();
    const auto& engine = engine::counters();
    return std::map<std::string, std::int64_t>{
        {"queued", queues.queued},
        {"taken_over", queues.taken_over},
        {"workers", queues.workers},
        {"pending", queues.pending},
        {"learned", engine.metadata_runs},
        {"deferred", engine.deferred},
        {"launched", engine.launched},
        {"prepared", graph::prepared_runs()},
        {"learned_calls", static_cast<std::int64_t>(engine::output_metadata_count())}};
  });
  m.def("take_race_reports",
        &memory::take_race_reports,
        "Return and clear the missing waits between streams found under HPU_REFERENCE_STREAM_ORDER=events.");
  m.def("clear_output_metadata_cache", &engine::clear_output_metadata);
  m.def("set_output_metadata_cache_enabled", &engine::set_output_metadata_cache_enabled, py::arg("on"));
  m.def("executed_ops", [] {
    std::map<std::string, std::int64_t> result;
    for (const auto& [name, count] : engine::executed_operators()) {
      result[name] += count;
    }
    return result;
  });
  m.def("reset_executed_ops", &engine::reset_executed_operators);
  m.def("set_event_callback", &set_event_callback, py::arg("callback"));
  m.def(
      "deliver_telemetry_events",
      [] { deliver_pending_events(nullptr); },
      "Deliver all pending telemetry events to the callback now.");
}

}  // namespace hpu_reference::bindings
