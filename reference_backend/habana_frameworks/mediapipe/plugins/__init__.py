"""Iterators over pipelines for frameworks."""
