"""Behaviours of area ``quantized``: quantized tensors."""
