"""Tests of conformance.worker."""
