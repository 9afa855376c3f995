"""Every property of groups, meshes and training on several ranks."""

from conformance.suite import cases

test_world = cases("world")
