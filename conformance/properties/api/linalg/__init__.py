"""Behaviours of area ``linalg``: products, linear systems, factorisations, norms and eigenvalues."""
