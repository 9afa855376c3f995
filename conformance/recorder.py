"""Old name of :mod:`conformance.checking.recorder`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(__name__, ["conformance.checking.recorder"])
