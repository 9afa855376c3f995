"""The shape of a failure's message: its words without what differs from one result of a cause to the next."""

from __future__ import annotations

import re

_ERROR = re.compile(
    r"\b(?:raise[sd]?|refused:|memory:|promised:|is due:|left the property:?) ?"
    r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*: .*)"
)
_DTYPE = re.compile(
    r"\b(?:torch\.)?(?:b?float(?:8_\w+|16|32|64)|u?int(?:8|16|32|64)|complex(?:32|64|128)|bool)\b"
    r"|'(?:Half|BFloat16|Float8_\w+|Float|Double|Byte|Char|Short|Int|Long|UInt\d+|Bool|Complex(?:Half|Float|Double))'"
)
_NUMBER = re.compile(
    r"0x[0-9a-fA-F]+|(?<![A-Za-z_#\d])[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)j?(?![A-Za-z_])"
)
_LIST = re.compile(r"(?:[(\[{]\s*(?:#[,:+\s]*)*[)\]}]|#)(?:\s*[,x+-]\s*(?:[(\[{]\s*(?:#[,:+\s]*)*[)\]}]|#))*")
#: The beginning of a message about what the suite needs of a device before it can check anything.
_PREREQUISITE = re.compile(r"prerequisite [\w ]+: ")
_LENGTH = 160


def message_shape(message: str, subject: str) -> str:
    """A message without what differs from one result of the same cause to the next.

    Numbers, shapes and addresses are ``#``, dtypes ``DTYPE``, the subject's own name ``SUBJECT``. If it
    quotes an error, only that counts: the words before say which call it was.
    """
    line = next(iter(message.splitlines()), "")
    before = prerequisite(message)
    error = _ERROR.search(line)
    if error is not None:
        line = f"{before}: {error.group(1)}" if before else error.group(1)
    for name in sorted({subject, subject.rpartition(".")[2]}, key=len, reverse=True):
        if len(name) > 1:
            line = re.sub(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9])", "SUBJECT", line)
    line = _NUMBER.sub("#", _DTYPE.sub("DTYPE", line))
    return " ".join(_LIST.sub("#", line).split())[:_LENGTH]


def prerequisite(message: str) -> str:
    """The prerequisite of the suite that a message says to fail (``prerequisite copies``), or nothing."""
    match = _PREREQUISITE.match(message)
    return match.group().rstrip(": ") if match else ""


def quotes_error(message: str) -> bool:
    """Return True if a message quotes an error of the target, whose words tell causes apart.

    One about a prerequisite does so too, whatever the family of operators.
    """
    return prerequisite(message) != "" or _ERROR.search(next(iter(message.splitlines()), "")) is not None
