"""Generators of committed files: ``python -m tools.generate`` writes them, with ``--check`` it compares them."""
