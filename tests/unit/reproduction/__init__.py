"""Tests of conformance.reproduction."""
