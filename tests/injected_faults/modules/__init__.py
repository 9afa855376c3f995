"""Faults injected into modules."""
