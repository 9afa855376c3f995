"""Ranks of a world whose collectives misbehave."""
