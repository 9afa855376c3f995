"""Certificates: what a level asks for, whether a run's results entitle to it, and the bundle that says so."""
