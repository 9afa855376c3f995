"""Behaviours of area ``shape``: operators that move elements."""
