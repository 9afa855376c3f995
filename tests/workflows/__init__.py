"""Tests that execute the workflows on this machine."""
