"""Behaviours of area ``linalg``: linear algebra."""
