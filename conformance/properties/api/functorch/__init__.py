"""Behaviours of area ``functorch``: function transforms."""
