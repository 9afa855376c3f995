"""Properties of operators."""

