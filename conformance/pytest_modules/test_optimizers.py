"""Collect the cases of all properties of optimizers, for every optimizer."""

from conformance.pytest_modules import cases

test_optimizers = cases("optimizer")
