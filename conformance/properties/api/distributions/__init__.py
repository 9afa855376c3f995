"""Behaviours of area ``distributions``: ``torch.distributions``."""
