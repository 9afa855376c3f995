"""Every property of overloads over every overload."""

from conformance.suite import cases

test_overloads = cases("overload")
