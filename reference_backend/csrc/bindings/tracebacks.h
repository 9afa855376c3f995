// Program stacks as Python objects.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <vector>

// Functions of torch's Python library. They are declared here because torch's header for them includes a
// library that torch's wheel does not contain.
namespace torch {
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
void freeDeadCapturedTracebackFrames();
}  // namespace torch
