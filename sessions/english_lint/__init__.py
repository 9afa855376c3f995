"""The lint rule for the project's English, part of ``nox -s lint``."""
