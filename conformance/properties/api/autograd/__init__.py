"""Behaviours of area ``autograd``: the engine of backward passes."""
