"""Behaviours of area ``attention``: scaled dot product attention and transformers."""
