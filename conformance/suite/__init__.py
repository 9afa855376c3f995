"""Old name of :mod:`conformance.pytest_modules`, kept for one release.

``pytest --pyargs conformance.suite`` still works.
"""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(__name__, ["conformance.pytest_modules"])
