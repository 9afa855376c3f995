"""Tests of the suite. README.md lists the kinds of tests and their folders."""
