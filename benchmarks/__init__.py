"""The project's figures, each a command, ``python -m benchmarks.NAME``; ratios are measured side by side."""
