"""The check of the project's English, part of ``nox -s lint``."""
