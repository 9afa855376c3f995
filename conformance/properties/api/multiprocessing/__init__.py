"""Behaviours of area ``multiprocessing``: tensors and processes."""
