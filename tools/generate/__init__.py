"""Generators of committed files. ``python -m tools.generate`` writes the files, and with ``--check`` compares
them.
"""
