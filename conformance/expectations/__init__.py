"""Declared deviations of a target: their files, what the results of a leg say of them, and proposals."""
