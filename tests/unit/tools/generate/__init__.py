"""Tests of tools.generate."""
