"""A profiler that records only the device's work and keeps it in memory until the program calls `flush`."""

from . import profiler

__all__ = ["profiler"]
