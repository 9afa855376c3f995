"""Collect the cases of all properties of overloads, for every overload."""

from conformance.pytest_modules import cases

test_overloads = cases("overload")
