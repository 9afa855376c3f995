"""Tests of conformance.process_control."""
