"""Tests of conformance.properties."""
