"""Behaviours of area ``promotion``: the dtypes of results of mixed dtypes."""
