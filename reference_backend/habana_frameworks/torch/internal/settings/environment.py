"""Parse environment variables: one parser for each kind of flag, with uniform error messages."""

from __future__ import annotations

import os

Value = bool | int | str

_BOOL_TEXTS = {"1": True, "true": True, "0": False, "false": False}
#: Texts of a switch. Options of the compile backend accept the same texts.
_SWITCH_TEXTS = _BOOL_TEXTS | {
    "on": True, "yes": True, "y": True, "t": True, "off": False, "no": False, "n": False, "f": False,
}  # fmt: skip
_INT_RANGES = {
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
    "i64": (-(2**63), 2**63 - 1),
}


def parse_value(name: str, kind: str, text: str) -> Value:
    """Convert the text of a variable to a value of the given kind.

    Args:
        name: name of the variable, for the error message.
        kind: one of

            * ``bool``: true, false, 1 or 0, in any case
            * ``switch``: also on, off, yes, no, y, n, t, f
            * ``u32``, ``u64``, ``i64``: decimal or ``0x`` hexadecimal
            * ``str``: any text, unchanged
        text: the text of the variable.

    Raises:
        ValueError: the text is not of this kind. The message contains the variable, the text and the accepted
            values.
    """
    if kind == "str":
        return text
    lowered = text.strip().lower()
    if kind == "bool":
        if lowered in _BOOL_TEXTS:
            return _BOOL_TEXTS[lowered]
        raise ValueError(f"{name}={text!r} is not a truth value. Use true, false, 1 or 0.")
    if kind == "switch":
        if lowered in _SWITCH_TEXTS:
            return _SWITCH_TEXTS[lowered]
        raise ValueError(f"{name}={text!r} is not a switch. Use one of {', '.join(_SWITCH_TEXTS)}.")
    lowest, highest = _INT_RANGES[kind]
    try:
        number = int(lowered, 16 if lowered.lstrip("+-").startswith("0x") else 10)
    except ValueError:
        number = None
    if number is None or not lowest <= number <= highest:
        raise ValueError(
            f"{name}={text!r} is not an accepted integer. Use a decimal or 0x hexadecimal number "
            f"from {lowest} to {highest}."
        )
    return number


def read_variable(name: str, kind: str, default: Value) -> Value:
    """Return the value of an environment variable, or `default` if the variable is unset or empty.

    Raises:
        ValueError: the variable has an invalid value, see `parse_value`.
    """
    text = os.environ.get(name)
    if text is None or (kind != "str" and not text.strip()):
        return default
    return parse_value(name, kind, text)
