"""Faults injected into the device side of behaviours."""
