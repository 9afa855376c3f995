"""Tests of conformance.certificate."""
