"""Words that options and their environment variables accept."""

from __future__ import annotations

import os

ON = frozenset({"on", "1", "yes", "true", "y", "t"})
OFF = frozenset({"off", "0", "no", "false", "n", "f"})

#: Sets of decompositions: the backend's choice, torch's core set, none, Inductor's.
DECOMPOSITION_MODES = ("habana", "core_aten", "none", "inductor")

#: Forms of a recipe: the best there is, Inductor's C++, calls captured in a graph.
EXECUTABLES = ("auto", "fused", "interpreted")


def to_bool(name: str, value: object) -> bool:
    """Read a truth value.

    Args:
        name: the option or variable, for the message.
        value: a bool, 0, 1, or one of the words `ON` and `OFF` in any case.

    Raises:
        AssertionError: the value is not one of these; the message contains `name`.
    """
    word = str(int(value) if isinstance(value, bool) else value).strip().lower()
    assert word in ON or word in OFF, (
        f"{name}={value!r} is not a truth value: use one of {', '.join(sorted(ON | OFF))}"
    )
    return word in ON


def to_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Read one of several words, in any case.

    Args:
        name: the option or variable, for the message.
        value: the word.
        choices: the words that are accepted, in lower case.

    Raises:
        AssertionError: the word is not one of `choices`; the message contains `name`.
    """
    word = str(value).strip().lower()
    assert word in choices, f"{name}={value!r} is unknown: use one of {', '.join(choices)}"
    return word


def env_bool(name: str, default: bool) -> bool:
    """Truth value of an environment variable, `default` if it is unset or empty. Errors as in `to_bool`."""
    text = os.environ.get(name, "")
    return to_bool(name, text) if text.strip() else default


def env_choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    """Word in an environment variable, `default` if it is unset or empty. Errors as in `to_choice`."""
    text = os.environ.get(name, "")
    return to_choice(name, text, choices) if text.strip() else default
