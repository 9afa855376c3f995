"""Behaviours of area ``printing``: printed tensors."""
