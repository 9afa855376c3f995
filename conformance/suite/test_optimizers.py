"""Every property of optimizers over every optimizer."""

from conformance.suite import cases

test_optimizers = cases("optimizer")
