"""Every property of modules over every module."""

from conformance.suite import cases

test_modules = cases("module")
