"""Behaviours of area ``multiprocessing``: tensors that processes share, and forks."""
