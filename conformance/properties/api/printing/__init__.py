"""Behaviours of area ``printing``: how tensors print."""
