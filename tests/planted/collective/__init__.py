"""Ranks whose collectives misbehave."""
