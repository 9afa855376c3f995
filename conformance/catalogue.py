"""Old name of :mod:`conformance.subjects.catalogue`, kept for one release."""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(
    __name__, ["conformance.subjects.catalogue", "conformance.model.vocabulary"]
)
