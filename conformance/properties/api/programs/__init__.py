"""Properties of random programs of operators, views and writes, in every mode."""
