"""Collect the cases of all properties of modules, for every module."""

from conformance.pytest_modules import cases

test_modules = cases("module")
