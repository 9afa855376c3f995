"""Old name of :mod:`conformance.framework.recorder`, kept for one release."""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(
    __name__, ["conformance.framework.recorder"], renamed_names={"Enough": "StopAtFirstFailure"}
)
