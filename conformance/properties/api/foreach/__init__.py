"""Behaviours of area ``foreach``: operators over lists of tensors."""
