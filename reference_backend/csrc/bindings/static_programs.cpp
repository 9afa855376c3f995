// Static programs for Python: compiled functions that `torch.compile` builds and calls with a list of
// tensors.
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "bindings/bindings.h"
#include "graph/static_program.h"

namespace py = pybind11;

namespace hpu_reference::bindings {

namespace {

using graph::StaticProgram;

at::ScalarType dtype_of(const py::handle& object) {
  TORCH_CHECK(THPDtype_Check(object.ptr()), "expected a torch.dtype");
  return reinterpret_cast<THPDtype*>(object.ptr())->scalar_type;
}

// `arguments`: a pair (form, content) for each argument of the operator's schema. The form is "value",
// "tensor", "tensors" or "optional_tensors".
std::vector<int> add_operator(StaticProgram& program,
                              const std::string& name,
                              const std::string& overload,
                              const py::list& arguments) {
  using Argument = StaticProgram::OperatorArgument;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const auto& schema = op.schema().arguments();
  TORCH_CHECK(arguments.size() == schema.size(), name, " takes ", schema.size(), " arguments");
  std::vector<Argument> result;
  for (std::size_t i = 0; i < schema.size(); i++) {
    const auto [form, content] = arguments[i].cast<std::pair<std::string, py::object>>();
    if (form == "value") {
      result.push_back({Argument::Form::Value, torch::jit::toIValue(content, schema[i].real_type()), {}});
    } else if (form == "tensor") {
      result.push_back({Argument::Form::Tensor, {}, {content.cast<int>()}});
    } else {
      result.push_back({form == "tensors" ? Argument::Form::Tensors : Argument::Form::OptionalTensors,
                        {},
                        content.cast<std::vector<int>>()});
    }
  }
  return program.add_operator(name, overload, std::move(result));
}

// Runs the program and empties the list of inputs. Returns None, without side effects, if the program cannot
// run with these inputs.
py::object run(StaticProgram& program, const py::list& inputs) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const py::handle& value : inputs) {
    if (!THPVariable_Check(value.ptr())) {
      return py::none();
    }
    tensors.push_back(THPVariable_Unpack(value.ptr()));
  }
  std::optional<std::vector<at::Tensor>> results;
  try {
    const py::gil_scoped_release release;
    results = program.run(tensors);
  } catch (const graph::UnexpectedLayout& error) {
    PyErr_SetString(PyExc_AssertionError, error.what());
    throw py::error_already_set();
  }
  if (!results) {
    return py::none();
  }
  tensors.clear();
  if (PyList_SetSlice(inputs.ptr(), 0, PyList_GET_SIZE(inputs.ptr()), nullptr) != 0) {
    throw py::error_already_set();
  }
  py::list list(results->size());
  for (std::size_t i = 0; i < results->size(); i++) {
    list[i] = (*results)[i].defined() ? py::cast(std::move((*results)[i])) : py::none();
  }
  return list;
}

}  // namespace

void bind_static_programs(py::module& m) {
  py::class_<StaticProgram>(m, "StaticProgram", "A compiled function with static shapes, as a list of steps.")
      .def(py::init<>())
      .def(
          "add_input",
          [](StaticProgram& self,
             const py::object& dtype,
             const StaticProgram::Sizes& sizes,
             const StaticProgram::Sizes& strides) { return self.add_input(dtype_of(dtype), sizes, strides); })
      .def("add_constant", &StaticProgram::add_constant)
      .def("add_buffer",
           [](StaticProgram& self,
              const py::object& dtype,
              const StaticProgram::Sizes& sizes,
              const StaticProgram::Sizes& strides,
              std::int64_t offset) { return self.add_buffer(dtype_of(dtype), sizes, strides, offset); })
      .def("add_view", &StaticProgram::add_view)
      .def("add_kernel", &StaticProgram::add_kernel)
      .def("add_operator", &add_operator)
      .def("add_layout_check", &StaticProgram::add_layout_check)
      .def("add_alignment_check", &StaticProgram::add_alignment_check)
      .def("add_release", &StaticProgram::add_release)
      .def("finish", &StaticProgram::finish)
      .def("__call__", &run)
      .def_property_readonly_static("most_arguments",
                                    [](const py::object&) { return StaticProgram::kMaxArguments; })
      .def_property_readonly("runs", &StaticProgram::runs);
}

}  // namespace hpu_reference::bindings
