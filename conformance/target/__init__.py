"""Read target files, and describe the backend under test to the checks."""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(__name__, ["conformance.target.target"], ["Target"])
