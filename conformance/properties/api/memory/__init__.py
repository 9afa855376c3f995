"""Behaviours of area ``memory``: allocation, statistics and running out."""
