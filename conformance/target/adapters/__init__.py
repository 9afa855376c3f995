"""Functions for target files: what a backend needs more than one call of its own for."""
