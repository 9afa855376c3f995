// Captured graphs for Python: capture, replay, and descriptions of graphs for users and for the compilation
// to fused code.
#include <pybind11/complex.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "engine/call.h"
#include "engine/output_metadata_cache.h"
#include "graph/cache.h"
#include "graph/capture.h"
#include "graph/lazy.h"
#include "graph/lazy_launch.h"
#include "kernels/host_call.h"
#include "runtime/capture_scope.h"
#include "runtime/host_access.h"
#include "runtime/queue.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

using graph::Capture;
using graph::Graph;
using Release = py::call_guard<py::gil_scoped_release>;

py::object dtype_object(at::ScalarType type) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(type)));
}

py::object to_python_object(const c10::IValue& value) {
  if (value.isInt()) {
    return py::cast(value.toInt());
  }
  if (value.isDouble()) {
    return py::cast(value.toDouble());
  }
  if (value.isBool()) {
    return py::cast(value.toBool());
  }
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return py::cast(std::complex<double>(number.real(), number.imag()));
  }
  if (value.isString()) {
    return py::cast(value.toStringRef());
  }
  if (value.isDevice()) {
    return py::cast(value.toDevice());
  }
  return py::none();
}

py::object describe_tensor(const Graph& graph, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return py::none();
  }
  const int buffer = graph.buffer_of(tensor);
  if (buffer < 0 && tensor.dim() == 0 && tensor.storage().data() != nullptr) {
    return py::make_tuple("cpu", py::cast(tensor.item()), dtype_object(tensor.scalar_type()));
  }
  return py::make_tuple("tensor",
                        buffer,
                        dtype_object(tensor.scalar_type()),
                        tensor.sizes().vec(),
                        tensor.strides().vec(),
                        tensor.storage_offset(),
                        tensor.is_conj(),
                        tensor.is_neg());
}

py::object describe_value(const Graph& graph, const engine::Call& call, std::size_t position) {
  const std::function<py::object(const c10::IValue&)> describe = [&](const c10::IValue& value) -> py::object {
    if (value.isTensor()) {
      return describe_tensor(graph, value.toTensor());
    }
    if (value.isList()) {
      py::list result;
      for (const c10::IValue& item : value.toListRef()) {
        result.append(describe(item));
      }
      return result;
    }
    if (value.isInt()) {
      const auto type = call.op.schema().arguments()[position].real_type();
      const auto* kind = &type;
      const auto optional = type->cast<c10::OptionalType>();
      const c10::TypePtr inner = optional != nullptr ? optional->getElementType() : nullptr;
      kind = inner != nullptr ? &inner : kind;
      if ((*kind)->kind() == c10::TypeKind::ScalarTypeType) {
        return dtype_object(value.toScalarType());
      }
    }
    return to_python_object(value);
  };
  if (static_cast<int>(position) == call.plan->generator) {
    return py::make_tuple("generator");
  }
  return describe(call.arguments[position]);
}

py::dict describe(const Graph& graph) {
  py::list buffers, calls;
  for (const auto& buffer : graph.buffers) {
    py::dict entry;
    entry["bytes"] = buffer.bytes;
    entry["role"] = graph::role_name(buffer.role);
    buffers.append(entry);
  }
  for (const auto& call : graph.calls) {
    py::dict entry;
    py::list arguments, results, writes;
    for (std::size_t i = 0; i < call.arguments.size(); i++) {
      arguments.append(describe_value(graph, call, i));
      if (call.plan->written[i]) {
        writes.append(i);
      }
    }
    const auto uses = graph::uses_of(call);
    for (const auto& result : call.output_metadata->results) {
      using Kind = engine::Result::Kind;
      if (result.kind == Kind::Undefined) {
        results.append(py::none());
      } else if (result.kind == Kind::Argument) {
        results.append(describe_tensor(graph, *uses[static_cast<std::size_t>(result.source)].tensor));
      } else {
        int buffer = -1;
        if (result.kind == Kind::New) {
          for (std::size_t j = 0; j < graph.buffers.size(); j++) {
            if (graph.buffers[j].host == call.new_storages[static_cast<std::size_t>(result.source)]) {
              buffer = static_cast<int>(j);
            }
          }
        } else {
          buffer = graph.buffer_of(*uses[static_cast<std::size_t>(result.source)].tensor);
        }
        results.append(py::make_tuple("tensor",
                                      buffer,
                                      dtype_object(result.dtype),
                                      std::vector<int64_t>(result.sizes.begin(), result.sizes.end()),
                                      std::vector<int64_t>(result.strides.begin(), result.strides.end()),
                                      result.offset,
                                      result.conj,
                                      result.neg));
      }
    }
    entry["op"] = call.plan->name;
    entry["args"] = arguments;
    entry["results"] = results;
    entry["writes"] = writes;
    calls.append(entry);
  }
  py::dict result;
  result["buffers"] = buffers;
  result["calls"] = calls;
  return result;
}

std::vector<graph::AotiArgument> fused_arguments(const py::list& arguments) {
  std::vector<graph::AotiArgument> result;
  for (const py::handle& item : arguments) {
    const auto entry = py::reinterpret_borrow<py::tuple>(item);
    TORCH_CHECK(entry.size() == 6 && THPDtype_Check(entry[1].ptr()),
                "an argument of fused code is (buffer, dtype, sizes, strides, offset, written)");
    result.push_back({entry[0].cast<int>(),
                      reinterpret_cast<THPDtype*>(entry[1].ptr())->scalar_type,
                      entry[2].cast<std::vector<std::int64_t>>(),
                      entry[3].cast<std::vector<std::int64_t>>(),
                      entry[4].cast<std::int64_t>(),
                      entry[5].cast<bool>()});
  }
  return result;
}

// Calls a Python function with CPU tensors over the bytes of the device tensors. CPU tensors that the
// function creates become device tensors. `writes`: the function changes values of its arguments.
py::list call_on_host(const py::function& function, const py::list& values, bool writes) {
  if (runtime::is_work_pending()) {
    const py::gil_scoped_release release;
    runtime::refuse_during_capture();
    runtime::wait_for_earlier_work(/*throw_errors=*/false);
  }
  kernels::HostCall call;
  call.allow_cpu_tensors(true);
  if (!writes) {
    call.assume_values_unchanged();
  }
  py::list arguments;
  for (const py::handle& value : values) {
    if (THPVariable_Check(value.ptr())) {
      arguments.append(call.host(THPVariable_Unpack(value.ptr()), kernels::Access::Write, "call_on_host"));
    } else {
      arguments.append(value);
    }
  }
  py::object returned;
  {
    static const std::string name = "compiled code";
    const runtime::TraceSpan span(runtime::TraceKind::Recipe, name);
    returned = function(arguments);
  }
  arguments = py::list();
  call.kernel_done();
  call.finish();
  struct Item {
    at::Tensor tensor;
    py::object python_object;
  };
  std::vector<Item> items;
  for (const py::handle& value : returned) {
    if (THPVariable_Check(value.ptr())) {
      items.push_back({THPVariable_Unpack(value.ptr()), py::object()});
    } else {
      items.push_back({at::Tensor(), py::reinterpret_borrow<py::object>(value)});
    }
  }
  returned = py::object();
  py::list results;
  for (Item& item : items) {
    if (!item.tensor.defined()) {
      results.append(item.python_object);
    } else if (kernels::is_device_tensor(item.tensor)) {
      results.append(item.tensor);
    } else {
      results.append(call.device(std::move(item.tensor)));
    }
  }
  return results;
}

}  // namespace

void bind_graphs(py::module& m) {
  py::class_<Capture, std::shared_ptr<Capture>>(m, "Graph", "A captured graph of device work.")
      .def(py::init<>())
      .def("begin", &Capture::begin, py::arg("dry_run") = false, py::arg("this_thread") = false, Release())
      .def("end", &Capture::end, Release())
      .def("reset", &Capture::reset, Release())
      .def("replay", &Capture::replay, py::arg("asynchronous") = false, Release())
      .def("set_io_binding", &Capture::set_io_binding, py::arg("inputs"), py::arg("outputs"), Release())
      .def("accepts", &Capture::accepts, py::arg("inputs"))
      .def("call", &Capture::call, py::arg("inputs"), py::arg("asynchronous") = false, Release())
      .def("dump", &Capture::dump, py::arg("format") = "text")
      .def("describe", [](const Capture& self) { return describe(*self.snapshot()); })
      .def(
          "set_fused",
          [](Capture& self, const std::string& path, const py::list& arguments) {
            self.set_fused(path, fused_arguments(arguments));
          },
          py::arg("path"),
          py::arg("arguments"),
          "Set compiled code and its arguments in order: (buffer, dtype, sizes, strides, offset, written).")
      .def("accesses",
           &Capture::accesses,
           py::arg("tensor"),
           "Return whether a call of the graph accesses the tensor's memory.")
      .def_property_readonly("key", [](const Capture& self) { return py::hash(py::str(self.dump("text"))); })
      .def("prepare", &Capture::prepare, "Run the passes now instead of at the first replay.", Release())
      .def_property_readonly("num_ops", &Capture::size)
      .def_property_readonly("ops", &Capture::operators)
      .def_property_readonly("memory_bytes", &Capture::memory_bytes)
      .def_property_readonly("capturing", &Capture::is_capturing)
      .def_property_readonly("recording_here", &Capture::is_recording_current_stream)
      .def_property_readonly("fused_runs", &Capture::fused_runs)
      .def_property_readonly("kind",
                             [](const Capture& self) { return self.is_fused() ? "fused" : "interpreted"; });
  py::class_<graph::Recipe, std::shared_ptr<graph::Recipe>>(m, "Recipe", "A compiled graph of lazy mode.")
      .def("describe", [](const graph::Recipe& self) { return describe(self.graph()); })
      .def(
          "dump",
          [](const graph::Recipe& self, const std::string& format) {
            return format == "dot" ? graph::to_dot(self.graph()) : graph::to_text(self.graph());
          },
          py::arg("format") = "text")
      .def("set_fused",
           [](graph::Recipe& self, const std::string& path, const py::list& arguments) {
             self.set_fused(
                 std::make_shared<graph::AotiProgram>(path, fused_arguments(arguments), self.graph()));
           })
      .def_property_readonly("fused_runs", &graph::Recipe::fused_runs);
  m.def("take_hot_recipes", &graph::take_hot_recipes);
  m.def("is_capturing", &runtime::is_capturing);
  m.def("call_on_host", &call_on_host, py::arg("function"), py::arg("tensors"), py::arg("writes") = true);

  m.def(
      "lazy_start",
      [](int mode, std::uint64_t seed) { start_lazy_mode(static_cast<graph::LazyMode>(mode), seed); },
      py::arg("mode"),
      py::arg("seed") = 0);
  m.def("lazy_flush", &graph::flush_lazy, py::arg("sync") = false, Release());
  m.def("lazy_pending", &graph::recorded_call_count);
  m.def("lazy_set_limits", &graph::set_lazy_limits, py::arg("max_ops"), py::arg("sync") = false);
  m.def("lazy_set_thread", &graph::set_lazy_thread);
  m.def("lazy_dump", &graph::dump_lazy_graphs, py::arg("folder"), py::arg("text"), py::arg("dot"));
  m.def("lazy_statistics", [] {
    const auto stats = graph::lazy_statistics();
    return std::map<std::string, std::int64_t>{{"flushes", stats.flushes},
                                               {"recorded", stats.recorded},
                                               {"caught_up", stats.caught_up},
                                               {"followed", stats.followed}};
  });

  m.def("recipe_cache_stats", [] {
    const auto stats = graph::cache_statistics();
    return std::map<std::string, std::int64_t>{{"hits", stats.hits},
                                               {"misses", stats.misses},
                                               {"entries", stats.entries},
                                               {"compilations", stats.compilations},
                                               {"compile_us", stats.compile_microseconds},
                                               {"programs_compiled", stats.programs_compiled},
                                               {"programs_loaded", stats.programs_loaded}};
  });
  m.def("recipe_cache_clear", &graph::clear_cache);
  m.def("recipe_cache_set_limit", &graph::set_cache_limit);
  m.def("recipe_cache_set_enabled", &graph::set_cache_enabled);
  m.def("count_program", &graph::count_program, py::arg("loaded"));
  m.def("record_compilation", &graph::count_compilation, py::arg("name"), py::arg("microseconds"));
}

}  // namespace hpu_reference::bindings
