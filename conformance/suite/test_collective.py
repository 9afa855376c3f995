"""Every property of collectives over every collective."""

from conformance.suite import cases

test_collective = cases("collective")
