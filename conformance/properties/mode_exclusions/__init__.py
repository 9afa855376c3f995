"""Tables of operators for which a mode has no meaning, each with its reason.

A table is never a way to be silent about a fault: tests check every entry against the CPU, and an entry that
is no longer true is an error there.
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
    """Return the operators of a table of a mode's file, with their reasons.

    An operator is ``svd``, or ``svd@complex64`` for one dtype. LookupError if there is no such table.
    """
    path = Path(__file__).parent / f"{mode}.toml"
    data = tomllib.loads(path.read_text()) if path.is_file() else {}
    if table not in data:
        raise LookupError(f"no table {table!r} of mode {mode!r}")
    return {str(name): str(reason) for name, reason in data[table].items()}
