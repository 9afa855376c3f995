"""Behaviours of area ``exchange``: NumPy, DLPack, buffers and Python numbers."""
