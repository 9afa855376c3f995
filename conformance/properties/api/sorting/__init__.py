"""Behaviours of area ``sorting``: sorting, selection by rank, unique elements and binary search."""
