"""Tests of conformance.framework."""
