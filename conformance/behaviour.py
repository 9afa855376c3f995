"""Old name of :mod:`conformance.behaviours.behaviour`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(
    __name__, ["conformance.behaviours.behaviour"], renamed_names={"check": "check_behaviour"}
)
