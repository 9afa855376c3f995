"""Behaviours of area ``export``: ``torch.export``."""
