"""Generators of committed files.

``python -m tools.generate`` writes the files. With ``--check`` it compares the committed files with new
texts.
"""
