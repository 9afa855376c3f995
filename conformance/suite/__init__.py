"""Old name of :mod:`conformance.pytest_modules`, kept for one release; ``--pyargs conformance.suite`` still works."""

from conformance.model.deprecation import moved

__getattr__ = moved(__name__, ["conformance.pytest_modules"])
