"""Every property of operators over every operator."""

from conformance.pytest_modules import cases

test_operators = cases("operator")
