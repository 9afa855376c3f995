"""Access to the environment flags: ``get_<flag>()``, and ``set_<flag>(value)`` for settable flags.

The functions are generated from `flag_table.FLAGS`. Their names contain the flag in lower case, for example
``get_pt_hpu_lazy_mode()``. The first use of a flag reads the environment and stores the value. Later changes
of ``os.environ`` have no effect. A setter replaces the stored value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .environment import Value, parse_value, read_variable
from .flag_table import FLAGS, OBEYED

#: The public import path of this module.
_PUBLIC_NAME = "habana_frameworks.torch.internal.bridge_config"

_values: dict[str, Value] = {}
_listeners: dict[str, Callable[[Any], None]] = {}


def value_of(name: str) -> Value:
    """Return the value of the flag `name` (upper case). The first call reads the environment.

    Raises:
        KeyError: the flag does not exist.
        ValueError: the text of the variable is not of the flag's kind.
    """
    if name not in _values:
        flag = FLAGS[name]
        _values[name] = read_variable(name, flag.kind, flag.default)
    return _values[name]


def validate_flag_variables() -> None:
    """Read every flag once, so that an invalid value raises at import and not later.

    Raises:
        ValueError: the text of a variable is not of the flag's kind.
    """
    for name in FLAGS:
        value_of(name)


def assign_flag(name: str, value: Any) -> None:
    """Set the flag `name`, even if users cannot set the flag. Only internal code calls this function.

    Raises:
        KeyError: the flag does not exist.
        ValueError: the value is not of the flag's kind.
    """
    _values[name] = parse_value(name, FLAGS[name].kind, str(value))
    if name in _listeners:
        _listeners[name](_values[name])


def add_flag_listener(name: str, listener: Callable[[Any], None]) -> None:
    """Call `listener` with the current value of the flag `name`, and again at each change."""
    _listeners[name] = listener
    listener(value_of(name))


@contextlib.contextmanager
def env_setting(name: str, value: Any) -> Iterator[None]:
    """Set a settable flag for the duration of a ``with`` block.

    Args:
        name: the flag, in upper or lower case.
        value: a value of the flag's kind.

    Raises:
        AttributeError: the flag does not exist, or it is not settable.
        ValueError: the value is not of the flag's kind.
    """
    getter, setter = _make_accessor("get_" + name.lower()), _make_accessor("set_" + name.lower())
    before = getter()
    setter(value)
    try:
        yield
    finally:
        setter(before)


def _make_accessor(name: str) -> Callable[..., Any]:
    action, _, flag_name = name.partition("_")
    flag_name = flag_name.upper()
    if action not in ("get", "set") or flag_name not in FLAGS:
        raise AttributeError(
            f"module {_PUBLIC_NAME!r} has no attribute {name!r}. The flags with an effect are "
            f"{', '.join(sorted(OBEYED))}"
        )
    if action == "get":

        def function() -> Value:
            return value_of(flag_name)

    else:
        if not FLAGS[flag_name].settable:
            raise AttributeError(
                f"{flag_name} is fixed for the process and has no setter. Set the variable before the "
                "process starts."
            )

        def function(value: Any) -> None:  # type: ignore[misc]
            assign_flag(flag_name, value)

    function.__name__ = function.__qualname__ = name
    flag = FLAGS[flag_name]
    effect = flag.effect or "accepted, without effect"
    function.__doc__ = f"{flag_name}: {effect} (default {flag.default!r})."
    return function


def __getattr__(name: str) -> Callable[..., Any]:
    function = _make_accessor(name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    getters = [f"get_{name.lower()}" for name in FLAGS]
    setters = [f"set_{name.lower()}" for name, flag in FLAGS.items() if flag.settable]
    return sorted({*globals(), *getters, *setters})
