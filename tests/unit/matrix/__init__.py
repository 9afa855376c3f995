"""Tests of conformance.matrix."""
