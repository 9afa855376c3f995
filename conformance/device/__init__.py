"""Operate the device under test in this process: bring it up, compile, capture, profile and probe."""
