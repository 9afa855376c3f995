"""Behaviours of area ``memory``: allocation, statistics and out-of-memory errors."""
