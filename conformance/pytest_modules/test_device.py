"""Collect the cases of all properties of a device's API."""

from conformance.pytest_modules import cases

test_device = cases("device")
