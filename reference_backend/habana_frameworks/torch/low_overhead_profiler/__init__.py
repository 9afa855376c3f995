"""A profiler that keeps the device's rows in memory until the program requests them."""

from . import profiler

__all__ = ["profiler"]
