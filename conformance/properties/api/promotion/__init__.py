"""Behaviours of area ``promotion``: the result dtypes of operators whose arguments have different dtypes."""
