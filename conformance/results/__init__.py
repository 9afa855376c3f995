"""Compute the verdicts and the results document of a run from its events."""
