"""Every property of collectives over every collective."""

from conformance.pytest_modules import cases

test_collective = cases("collective")
