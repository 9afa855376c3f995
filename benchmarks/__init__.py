"""Benchmarks: each module measures one figure and runs as ``python -m benchmarks.NAME``.

If a figure is a ratio of two times, the calls of both sides are measured in alternation.
"""
