"""Behaviours of area ``forward-ad``: forward-mode differentiation."""
