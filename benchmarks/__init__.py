"""Benchmarks: each figure is a command, ``python -m benchmarks.NAME``. Ratios are measured side by side."""
