"""Behaviours of area ``views``: views and what they share."""
