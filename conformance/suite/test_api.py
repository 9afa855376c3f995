"""Every behaviour of torch's API."""

from conformance.suite import cases

test_api = cases("api")
