"""Tests of the sessions that nox runs."""
