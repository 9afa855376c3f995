"""Every property of modules over every module."""

from conformance.pytest_modules import cases

test_modules = cases("module")
