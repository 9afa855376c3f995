"""Entries of upstream's lists: which test of which entry of its databases, in which dtypes, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import UsageError
from conformance.upstream.matching_tests import UpstreamMethod

#: Larger lists are not read; the longest public one, of 32,000 tests, has 3 MiB.
MAX_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class ListedTest:
    """A test of an entry that is expected to fail or is skipped.

    No dtypes mean all of them. ``reason`` is the list's own, if it gives one.
    """

    line: int
    test: UpstreamMethod
    subject: str
    dtypes: tuple[str, ...] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Listing:
    """The content of a list; ``problems`` are sentences about parts that were not understood.

    ``kinds`` are kinds of failure by result id, if the list was written by this suite.
    """

    entries: tuple[ListedTest, ...]
    problems: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def read_list_text(path: Path) -> str:
    """The text of a list; UsageError if it cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UsageError(f"list {path} has {size} bytes; at most {MAX_BYTES} are read")
        return path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"list {path} cannot be read ({error.strerror}); name another file") from None
    except UnicodeDecodeError:
        raise UsageError(f"list {path} is not text in UTF-8; name another file") from None
