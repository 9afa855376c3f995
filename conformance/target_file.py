"""Old name of :mod:`conformance.target.file`, kept for one release."""

from conformance.model.deprecation import moved

__getattr__ = moved(
    __name__,
    ["conformance.target.file", "conformance.model.vocabulary"],
    renamed_names={"find": "find_target_file"},
)
