"""Behaviours of area ``nn``: modules and ``torch.nn.functional``."""
