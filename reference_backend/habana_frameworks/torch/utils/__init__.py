"""Helpers that programs import one by one."""
