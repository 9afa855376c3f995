"""Tests of the Python packages: import, flags, devices, memory figures, patches, events, metrics, steps."""
