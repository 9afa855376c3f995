"""Old name of :mod:`conformance.target.file`, kept for one release."""

from conformance.model.deprecation import getattr_for_moved_module

__getattr__ = getattr_for_moved_module(
    __name__,
    ["conformance.target.file", "conformance.model.vocabulary"],
    renamed_names={"find": "find_target_file"},
)
