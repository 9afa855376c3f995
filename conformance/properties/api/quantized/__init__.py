"""Behaviours of area ``quantized``: quantized tensors and fake quantization."""
