"""Tests of conformance.upstream."""
