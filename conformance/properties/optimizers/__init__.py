"""Properties of optimizers."""
