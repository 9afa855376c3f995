"""The content of upstream's lists of expected failures and skips."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import UsageError
from conformance.upstream.matching_tests import UpstreamMethod

#: The maximum size of a list in bytes. The longest public list, with 32,000 tests, has 3 MiB.
MAX_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class ListedTest:
    """A test of a database entry that is expected to fail or is skipped.

    Empty ``dtypes`` mean all dtypes. ``reason`` is the reason in the list, if any.
    """

    line: int
    test: UpstreamMethod
    subject: str
    dtypes: tuple[str, ...] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Listing:
    """The content of a list.

    ``problems`` has a message for each part that was not understood. ``kinds`` maps result ids to failure
    kinds if this suite wrote the list.
    """

    entries: tuple[ListedTest, ...]
    problems: tuple[str, ...]
    kinds: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def read_list_text(path: Path) -> str:
    """Return the text of a list. Raise UsageError if the file cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UsageError(f"list {path} has {size} bytes; the maximum is {MAX_BYTES}")
        return path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"list {path} cannot be read ({error.strerror}); choose another file") from None
    except UnicodeDecodeError:
        raise UsageError(f"list {path} is not UTF-8 text; choose another file") from None
