"""Workflows executed on this machine."""
