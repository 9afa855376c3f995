"""Old name of :mod:`conformance.framework.property`, kept for one release."""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(
    __name__,
    ["conformance.framework.property", "conformance.properties.registry", "conformance.model.vocabulary"],
    renamed_names={"find": "find_property", "load": "load_properties"},
)
