"""Behaviours of area ``creation``: factories, conversions to tensors, and joined tensors."""
