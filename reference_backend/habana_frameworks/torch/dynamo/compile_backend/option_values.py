"""Accepted values of options and their environment variables."""

from __future__ import annotations

import os

ON = frozenset({"on", "1", "yes", "true", "y", "t"})
OFF = frozenset({"off", "0", "no", "false", "n", "f"})

#: Sets of decompositions: the backend's default, torch's core set, no decompositions, Inductor's set.
DECOMPOSITION_MODES = ("habana", "core_aten", "none", "inductor")

#: Kinds of recipes: the best available kind, Inductor's C++ code, or a captured graph.
EXECUTABLES = ("auto", "fused", "interpreted")


def to_bool(name: str, value: object) -> bool:
    """Convert an option's value to a bool.

    Args:
        name: the option or variable, for the message.
        value: a bool, 0, 1, or one of the strings in `ON` and `OFF` in any case.

    Raises:
        AssertionError: the value is not accepted; the message contains `name`.
    """
    text = str(int(value) if isinstance(value, bool) else value).strip().lower()
    assert text in ON or text in OFF, (
        f"{name}={value!r} is not a truth value. Use one of {', '.join(sorted(ON | OFF))}."
    )
    return text in ON


def to_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return the choice that an option's value names, in lower case.

    Args:
        name: the option or variable, for the message.
        value: the value, in any case.
        choices: the accepted values, in lower case.

    Raises:
        AssertionError: the value is not one of `choices`; the message contains `name`.
    """
    text = str(value).strip().lower()
    assert text in choices, f"{name}={value!r} is unknown. Use one of {', '.join(choices)}."
    return text


def env_bool(name: str, default: bool) -> bool:
    """Return an environment variable as a bool, or `default` if it is unset or empty.

    Raises:
        AssertionError: the variable has an invalid value, see `to_bool`.
    """
    text = os.environ.get(name, "")
    return to_bool(name, text) if text.strip() else default


def env_choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    """Return the choice in an environment variable, or `default` if it is unset or empty.

    Raises:
        AssertionError: the variable has an invalid value, see `to_choice`.
    """
    text = os.environ.get(name, "")
    return to_choice(name, text, choices) if text.strip() else default
