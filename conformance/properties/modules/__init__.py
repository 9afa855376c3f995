"""Properties of modules."""
