"""Old name of :mod:`conformance.pytest_modules`, kept for one release, also in ``--pyargs conformance.suite``."""

from conformance.model.deprecation import moved

__getattr__ = moved(__name__, ["conformance.pytest_modules"])
