"""Behaviours of area ``checkpoint``: recomputation in the backward."""
