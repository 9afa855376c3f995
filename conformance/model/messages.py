"""Message patterns: failure messages without the details that differ between results with the same cause."""

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
#: The beginning of a message about a failed prerequisite of the suite.
_PREREQUISITE = re.compile(r"prerequisite [\w ]+: ")
#: The beginnings of torch's messages about an operator without a kernel for the device.
_MISSING_KERNEL = re.compile(r"(?:Could not run|The operator) '(\w+::[\w.]+)'")
#: Matches a message about a wrong value. The text before and after the match names the call.
_WRONG_VALUE = re.compile(r" is [^\n]{1,120}? at [\[(][^\n]*?, expected ")
_LENGTH = 160


def message_pattern(message: str, subject: str) -> str:
    """Return the pattern of a message.

    Numbers, shapes and addresses are replaced by ``#``, dtypes by ``DTYPE``, and the name of the subject by
    ``SUBJECT``. If the message quotes an error, the pattern is only the error, because the text before the
    error only describes the call.
    """
    line = next(iter(message.splitlines()), "")
    prerequisite_name = failed_prerequisite(message)
    error = _ERROR.search(line)
    if error is not None:
        line = f"{prerequisite_name}: {error.group(1)}" if prerequisite_name else error.group(1)
    for name in sorted({subject, subject.rpartition(".")[2]}, key=len, reverse=True):
        if len(name) > 1:
            quoted = re.escape(name)
            # In quotes, torch names a kernel after its operator ("add_kernel"). Elsewhere, a longer
            # identifier, such as ``convolution_overrideable``, is a different name
            # and stays in the pattern.
            in_quotes, alone = rf'(?<="){quoted}(?![A-Za-z0-9])', rf"(?<!\w){quoted}(?=_?(?!\w))"
            line = re.sub(f"{in_quotes}|{alone}", "SUBJECT", line)
    line = _NUMBER.sub("#", _DTYPE.sub("DTYPE", line))
    return " ".join(_LIST.sub("#", line).split())[:_LENGTH]


def failed_prerequisite(message: str) -> str:
    """Return the prerequisite of the suite that failed according to a message (``prerequisite copies``), or
    an empty text.
    """
    match = _PREREQUISITE.match(message)
    return match.group().rstrip(": ") if match else ""


def missing_kernel(message: str) -> str:
    """Return the overload whose kernel is missing according to a message (``aten::clamp.Tensor_out``), or an
    empty text.
    """
    match = _MISSING_KERNEL.search(next(iter(message.splitlines()), ""))
    return match.group(1) if match else ""


def is_about_wrong_values(message: str) -> bool:
    """Return True if a message reports the wrong element of a tensor."""
    return _WRONG_VALUE.search(message) is not None


def identifies_cause(message: str) -> bool:
    """Return True if a message quotes an error of the target or reports a failed prerequisite.

    The text of such a message identifies the cause, even in results of different families of operators.
    """
    return (
        failed_prerequisite(message) != "" or _ERROR.search(next(iter(message.splitlines()), "")) is not None
    )
