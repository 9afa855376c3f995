"""Behaviours of area ``random``: random numbers and generators."""
