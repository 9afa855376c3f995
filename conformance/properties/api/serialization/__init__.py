"""Behaviours of area ``serialization``: saving and loading."""
