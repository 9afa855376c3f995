"""Tests of conformance.doctor."""
