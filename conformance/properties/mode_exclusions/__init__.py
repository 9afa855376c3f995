"""Tables of operators that a mode cannot check, each with its reason.

A table must not hide a deviation: tests check every entry against the CPU and fail if an entry is no longer
true.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@functools.cache
def reasons(mode: str, table: str) -> dict[str, str]:
    """Return the operators in a table of a mode's file, with their reasons.

    A key is an operator such as ``svd``, or ``svd@complex64`` for a single dtype. LookupError: the table does
    not exist.
    """
    path = Path(__file__).parent / f"{mode}.toml"
    data = tomllib.loads(path.read_text()) if path.is_file() else {}
    if table not in data:
        raise LookupError(f"mode {mode!r} has no table {table!r}")
    return {str(name): str(reason) for name, reason in data[table].items()}
