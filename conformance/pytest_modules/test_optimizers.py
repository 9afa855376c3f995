"""Every property of optimizers over every optimizer."""

from conformance.pytest_modules import cases

test_optimizers = cases("optimizer")
