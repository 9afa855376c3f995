"""The words of the suite as types; imports the standard library only."""
