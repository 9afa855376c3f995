"""The backend under test, as its target file describes it."""

from conformance.model.deprecation import moved

__getattr__ = moved(__name__, ["conformance.target.target"], ["Target"])
