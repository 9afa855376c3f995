"""Behaviours of area ``dataloader``: DataLoader and pinned memory."""
