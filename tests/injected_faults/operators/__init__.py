"""Faults planted into the entries of operators."""
