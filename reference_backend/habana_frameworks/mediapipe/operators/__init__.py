"""Operators of image pipelines."""
