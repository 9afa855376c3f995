"""Faults planted into modules."""
