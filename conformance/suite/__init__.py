"""Old name of :mod:`conformance.pytest_modules`, which stays for one release.

It also works in ``--pyargs conformance.suite``.
"""

from conformance.model.deprecation import moved

__getattr__ = moved(__name__, ["conformance.pytest_modules"])
