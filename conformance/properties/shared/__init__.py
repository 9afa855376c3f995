"""Shared code of the operator, overload, module and optimizer properties."""
