"""Faults planted on purpose: each property is red with its faults and green without them."""
