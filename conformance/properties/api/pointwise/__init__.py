"""Behaviours of area ``pointwise``: unary and binary elementwise operators."""
