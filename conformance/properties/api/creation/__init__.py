"""Behaviours of area ``creation``: factories and copies into new tensors."""
