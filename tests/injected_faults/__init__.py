"""Injected faults: each property fails with its faults and passes without them."""
