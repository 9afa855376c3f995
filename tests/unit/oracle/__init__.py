"""Tests of conformance.oracle."""
