"""Behaviours of area ``determinism``: deterministic algorithms."""
