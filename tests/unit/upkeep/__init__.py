"""Tests of conformance.upkeep."""
