"""Behaviours of area ``fake``: fake and meta tensors."""
