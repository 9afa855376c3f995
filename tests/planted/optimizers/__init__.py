"""Faults planted into optimizers."""
