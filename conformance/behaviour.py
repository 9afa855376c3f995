"""Old name of :mod:`conformance.behaviours.behaviour`, kept for one release."""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(
    __name__, ["conformance.behaviours.behaviour"], renamed_names={"check": "check_behaviour"}
)
