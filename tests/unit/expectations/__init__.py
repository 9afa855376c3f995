"""Tests of conformance.expectations."""
