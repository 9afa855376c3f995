"""Behaviours of area ``sorting``: sort, select, search."""
