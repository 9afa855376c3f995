"""Faults injected into optimizers."""
