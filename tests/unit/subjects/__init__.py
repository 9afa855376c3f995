"""Tests of conformance.subjects."""
