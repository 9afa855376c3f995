"""Tests of conformance.bridges."""
