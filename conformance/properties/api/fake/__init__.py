"""Behaviours of area ``fake``: fake tensors (FakeTensorMode) and meta tensors."""
