"""Old name of :mod:`conformance.checking.property`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(
    __name__,
    ["conformance.checking.property", "conformance.properties.registry", "conformance.model.vocabulary"],
)
