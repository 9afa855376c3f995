"""Tests of conformance.checking."""
