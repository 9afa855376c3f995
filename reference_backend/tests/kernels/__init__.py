"""Tests of kernels: arguments, layouts, aliasing, autocast, the fallback, the table of registrations."""
