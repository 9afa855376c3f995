"""Behaviours of area ``views``: views of tensors and the memory that they share."""
