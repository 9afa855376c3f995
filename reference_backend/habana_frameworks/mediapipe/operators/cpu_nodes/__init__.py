"""Operators that a program writes."""
