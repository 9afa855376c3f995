"""The project's figures, each a command: ``python -m benchmarks.NAME``. Ratios are measured side by side in one run."""
