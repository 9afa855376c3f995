"""Every property of groups, meshes and training on several ranks."""

from conformance.pytest_modules import cases

test_world = cases("world")
