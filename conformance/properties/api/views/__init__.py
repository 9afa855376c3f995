"""Behaviours of area ``views``: views and the memory they share."""
