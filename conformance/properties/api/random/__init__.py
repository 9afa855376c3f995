"""Behaviours of area ``random``: random operators, seeds and generators."""
