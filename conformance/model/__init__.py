"""The vocabulary of the suite as types. Imports only the standard library."""
