"""Certificates: assess whether a run holds a level, and write and verify the bundle that certifies the level."""
