"""Every property of a device's API."""

from conformance.suite import cases

test_device = cases("device")
