"""Behaviours of area ``optim``: optimizers and schedulers."""
