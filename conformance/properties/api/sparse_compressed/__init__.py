"""Behaviours of area ``sparse-compressed``: CSR, CSC, BSR and BSC tensors."""
