"""Write and read the journal of a run: a file with one JSON event per line, to which all processes append."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, overload

from conformance.errors import UsageError
from conformance.model import records
from conformance.model.records import Event

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The beginning of every line. After a torn line, the decoder searches for this text to find the next event.
_START = '{"event":'
MAX_BYTES = 4 << 30


class Journal:
    """A journal open for writing.

    Each event is a single ``write`` to a file opened for appending, so that lines of several processes do not
    mix.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @overload
    def write(self, event: Literal["run"], **fields: Unpack[records.Header]) -> None: ...
    @overload
    def write(self, event: Literal["plan"], **fields: Unpack[records.PlanTable]) -> None: ...
    @overload
    def write(self, event: Literal["round"], **fields: Unpack[records.RoundFields]) -> None: ...
    @overload
    def write(self, event: Literal["resume"], **fields: Unpack[records.ResumeFields]) -> None: ...
    @overload
    def write(self, event: Literal["worker"], **fields: Unpack[records.WorkerFields]) -> None: ...
    @overload
    def write(self, event: Literal["worker-end"], **fields: Unpack[records.WorkerEndFields]) -> None: ...
    @overload
    def write(self, event: Literal["dtype"], **fields: Unpack[records.DtypeFields]) -> None: ...
    @overload
    def write(self, event: Literal["result"], **fields: Unpack[records.ResultFields]) -> None: ...
    @overload
    def write(self, event: Literal["time"], **fields: Unpack[records.TimeFields]) -> None: ...
    @overload
    def write(self, event: Literal["probe"], **fields: Unpack[records.ProbeFields]) -> None: ...
    @overload
    def write(self, event: Literal["oracle"], **fields: Unpack[records.OracleFields]) -> None: ...
    @overload
    def write(self, event: Literal["oracle-check"], **fields: Unpack[records.OracleCheck]) -> None: ...
    @overload
    def write(self, event: Literal["problem"], **fields: Unpack[records.ProblemFields]) -> None: ...
    @overload
    def write(self, event: Literal["end"], **fields: Unpack[records.EndFields]) -> None: ...
    @overload
    def write(self, event: Literal["lost"], **fields: Unpack[records.LostWorkerFields]) -> None: ...
    @overload
    def write(
        self, event: Literal["independent"], **fields: Unpack[records.IndependentLossFields]
    ) -> None: ...
    @overload
    def write(self, event: Literal["sample"], **fields: Unpack[records.SampleFields]) -> None: ...
    @overload
    def write(self, event: Literal["interrupted"]) -> None: ...
    def write(self, event: str, **fields: object) -> None:
        """Append one event; raise OSError if only a part of the line could be written."""
        line = json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(
                f"only {written} of {len(line)} bytes were written to journal {self.path}; free some space "
                "on its disk"
            )

    def lock(self) -> bool:
        """Lock the journal for this process until it exits or closes the file; return False if it is already
        locked.
        """
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the file, which releases the lock."""
        os.close(self._file)


def reference_digest_writer(journal: Journal) -> Callable[[str, str, int, str], None]:
    """Return a function that writes the digest of a reference value to the journal."""

    def write_digest(operator: str, dtype: str, index: int, digest: str) -> None:
        journal.write("oracle", op=operator, dtype=dtype, index=index, digest=digest)

    return write_digest


def decode_line(line: str) -> tuple[list[Event], bool]:
    """Return the events of one line, and whether the line was damaged.

    A process that dies while writing leaves a torn line, and the next event follows on the same line. A
    quotation mark inside a JSON string is escaped, so the start of an event cannot occur in a string.
    """
    line = line.strip()
    if not line:
        return [], False
    damaged = False
    start = 0
    while start >= 0:
        try:
            event = json.loads(line[start:])
        except (ValueError, RecursionError):
            damaged = True
        else:
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                return [cast("Event", event)], damaged
            damaged = True
        start = line.find(_START, start + 1)
    return [], True


class JournalTail:
    """A reader of a journal that is still being written. Each call of ``read`` yields only new events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._position = 0
        self._rest = b""

    def read(self, *, final: bool = False) -> Iterator[Event]:
        """Yield the events since the last call. If ``final`` is true, also decode a last line without a
        newline.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return
        self._position += len(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = b"" if final else lines.pop()
        for line in lines:
            events, damaged = decode_line(line.decode("utf-8", "replace"))
            self.damaged += damaged
            yield from events


def read_journal(path: Path) -> tuple[list[Event], int]:
    """Return all events of a journal and its number of damaged lines. Raise UsageError if the file cannot be
    read.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"journal {path} cannot be read: {error.strerror}") from None
    if size > MAX_BYTES:
        raise UsageError(f"journal {path} has {size} bytes; the maximum is {MAX_BYTES}")
    tail = JournalTail(path)
    return list(tail.read(final=True)), tail.damaged
