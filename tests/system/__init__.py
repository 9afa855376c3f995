"""Tests of the command line in separate processes: runs, crashes, resuming and merging."""
