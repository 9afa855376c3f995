"""Behaviours of area ``memory``: allocation, memory statistics and out-of-memory errors."""
