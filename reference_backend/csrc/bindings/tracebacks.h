// Stacks of programs, as objects of Python.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <vector>

// Functions of torch's Python library whose header asks for a library that torch does not bring.
namespace torch {
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
void freeDeadCapturedTracebackFrames();
}  // namespace torch
