"""Ranks with faulty collectives."""
