"""Old name of :mod:`conformance.framework.recorder`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(
    __name__, ["conformance.framework.recorder"], renamed_names={"Enough": "StopAtFirstFailure"}
)
