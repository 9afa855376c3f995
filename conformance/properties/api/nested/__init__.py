"""Behaviours of area ``nested``: nested tensors of the strided and jagged layouts."""
