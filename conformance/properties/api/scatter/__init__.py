"""Behaviours of area ``scatter``: gather and scatter."""
