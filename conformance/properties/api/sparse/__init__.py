"""Behaviours of area ``sparse``: COO tensors."""
