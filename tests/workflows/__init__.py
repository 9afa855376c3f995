"""Tests that execute the GitHub workflows on this machine."""
