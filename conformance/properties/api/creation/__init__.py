"""Behaviours of area ``creation``: factories and what copies into new tensors."""
