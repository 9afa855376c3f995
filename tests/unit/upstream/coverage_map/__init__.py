"""Tests of conformance.upstream.coverage_map."""
