"""Handmade overload calls, for arguments that the recorded calls of operators do not contain."""
