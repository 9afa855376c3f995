"""Behaviours of area ``subclass``: tensor subclasses, modes and overrides."""
