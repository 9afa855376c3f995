"""Tests of conformance.commands."""
