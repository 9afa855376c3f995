"""Old name of :mod:`conformance.framework.property`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(
    __name__,
    ["conformance.framework.property", "conformance.properties.registry", "conformance.model.vocabulary"],
    renamed_names={"find": "find_property", "load": "load_properties"},
)
