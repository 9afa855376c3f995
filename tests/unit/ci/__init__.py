"""Tests of conformance.ci."""
