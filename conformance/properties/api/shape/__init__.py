"""Behaviours of area ``shape``: operators that move, join, split and reshape without computing."""
