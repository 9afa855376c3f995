"""Behaviours of area ``checkpoint``: recomputation in backward passes."""
