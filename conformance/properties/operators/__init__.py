"""Properties of operators."""
