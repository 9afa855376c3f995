"""Every property of overloads over every overload."""

from conformance.pytest_modules import cases

test_overloads = cases("overload")
