"""Collect the cases of all properties of process groups, device meshes and training on several ranks."""

from conformance.pytest_modules import cases

test_world = cases("world")
