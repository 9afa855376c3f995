"""Operators of pipelines."""
