"""Read the tables of operators that a property cannot check in a mode, with the reasons.

A table must not hide a deviation of a device. Therefore tests of the suite check the reason of every entry on
the CPU, and fail if a reason is not true any more.
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
def exclusion_reasons(mode: str, table: str) -> dict[str, str]:
    """Return the operators in a table of the file ``MODE.toml``, with the reason for each.

    A key is an operator such as ``svd``, or ``svd@complex64`` for a single dtype. Raise LookupError if the
    table does not exist.
    """
    path = Path(__file__).parent / f"{mode}.toml"
    data = tomllib.loads(path.read_text()) if path.is_file() else {}
    if table not in data:
        raise LookupError(f"mode {mode!r} has no table {table!r}")
    return {str(name): str(reason) for name, reason in data[table].items()}
