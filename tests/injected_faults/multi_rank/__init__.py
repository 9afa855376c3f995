"""Faults of the ranks of a rank pool."""
