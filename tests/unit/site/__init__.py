"""Tests of conformance.site."""
