"""Tests of conformance.samples."""
