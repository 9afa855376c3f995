"""Tests of conformance.device."""
