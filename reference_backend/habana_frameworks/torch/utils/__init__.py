"""Helpers that programs import from their modules."""
