"""Calls of overloads that are written by hand, for arguments that the recorded calls of operators do not reach."""
