"""Tests of conformance.results."""
