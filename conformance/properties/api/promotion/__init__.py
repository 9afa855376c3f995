"""Behaviours of area ``promotion``: type promotion."""
