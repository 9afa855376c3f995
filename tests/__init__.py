"""Tests of the suite; README.md says which kind of test goes where."""
