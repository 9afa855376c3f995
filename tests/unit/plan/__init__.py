"""Tests of conformance.plan."""
