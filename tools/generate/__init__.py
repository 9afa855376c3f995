"""Generators of committed tables, run by maintainers; nothing imports this package."""
