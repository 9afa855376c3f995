"""Tests of conformance.model."""
