"""Tests of the Python packages: import, flags, devices, memory, patches, events, metrics, steps."""
