"""Faults injected into operators."""
