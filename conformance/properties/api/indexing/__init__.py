"""Behaviours of area ``indexing``: reading and writing by index, mask and slice."""
