"""Behaviours of area ``sparse``: COO tensors, and operators on all sparse layouts."""
