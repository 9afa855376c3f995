// The settings of the log, and log lines from Python.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "bindings/bindings.h"
#include "memory/history.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

runtime::LogModule module_of(const std::string& name) {
  const auto& names = runtime::log_modules();
  const auto module_name = std::find(names.begin(), names.end(), name);
  TORCH_CHECK_VALUE(
      module_name != names.end(), "the log has no module ", name, "; use a name of log_modules()");
  return static_cast<runtime::LogModule>(module_name - names.begin());
}

void set_log(const std::map<std::string, std::uint8_t>& levels,
             const std::string& folder,
             std::int64_t file_bytes,
             int files,
             bool to_output,
             bool to_errors) {
  runtime::LogSettings settings{{}, folder, file_bytes, files, to_output, to_errors};
  for (const auto& [name, bits] : levels) {
    settings.levels[static_cast<std::size_t>(module_of(name))] = bits;
  }
  const py::gil_scoped_release release;
  runtime::set_log(settings);
  runtime::update_logged_rows();
  memory::update_logged_memory();
}

// Levels range from 0 (trace) to 5 (critical).
bool is_logged(const std::string& module, int level) {
  return level >= 0 && level <= 5 &&
         runtime::is_logged(module_of(module), static_cast<runtime::LogLevel>(level));
}

void write_log(const std::string& module, int level, const std::string& text) {
  if (is_logged(module, level)) {
    const py::gil_scoped_release release;
    runtime::write_log(module_of(module), static_cast<runtime::LogLevel>(level), text);
  }
}

}  // namespace

void bind_log(py::module& m) {
  m.def("log_modules", [] {
    const auto& names = runtime::log_modules();
    return std::vector<std::string>(names.begin(), names.end());
  });
  m.def("set_log",
        &set_log,
        py::arg("levels"),
        py::arg("folder"),
        py::arg("file_bytes"),
        py::arg("files"),
        py::arg("to_output"),
        py::arg("to_errors"));
  m.def("is_logged", &is_logged);
  m.def("write_log", &write_log);
}

}  // namespace hpu_reference::bindings
