"""Behaviours of area ``custom-operators``: torch.library."""
