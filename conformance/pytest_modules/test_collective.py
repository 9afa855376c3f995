"""Collect the cases of all properties of collectives, for every collective."""

from conformance.pytest_modules import cases

test_collective = cases("collective")
