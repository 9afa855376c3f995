"""Behaviours of area ``tensor``: attributes, conversions, memory formats and methods of tensors."""
