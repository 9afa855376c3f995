"""Collect the cases of all behaviours of torch's API."""

from conformance.pytest_modules import cases

test_api = cases("api")
