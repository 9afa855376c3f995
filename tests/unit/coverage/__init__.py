"""Tests of conformance.coverage."""
