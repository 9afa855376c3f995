"""Every property of operators over every operator."""

from conformance.suite import cases

test_operators = cases("operator")
