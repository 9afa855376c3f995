"""Behaviours of area ``reductions``: reductions and scans."""
