"""Collect the cases of all properties of operators, for every operator."""

from conformance.pytest_modules import cases

test_operators = cases("operator")
