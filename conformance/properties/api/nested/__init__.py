"""Behaviours of area ``nested``: nested tensors."""
