"""Behaviours of area ``autocast``: autocast and gradient scaling."""
