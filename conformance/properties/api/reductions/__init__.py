"""Behaviours of area ``reductions``: sums, extremes, moments and cumulative functions."""
