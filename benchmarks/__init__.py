"""Benchmarks: each module measures one figure and runs as ``python -m benchmarks.NAME``.

The two sides of a ratio are measured in alternation.
"""
