"""Behaviours of area ``scatter``: gather, scatter and their reductions."""
