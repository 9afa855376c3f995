"""Behaviours of area ``tensor``: attributes, conversions and methods of tensors."""
