"""Old name of :mod:`conformance.subjects.catalogue`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(__name__, ["conformance.subjects.catalogue", "conformance.model.vocabulary"])
