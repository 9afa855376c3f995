"""Behaviours of area ``pointwise``: unary and binary operators."""
