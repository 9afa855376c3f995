"""Tests of conformance.builds."""
