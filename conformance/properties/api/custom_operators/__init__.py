"""Behaviours of area ``custom-operators``: operators that are defined with ``torch.library``."""
