"""User-defined operators."""
