"""Access the options of `config` with checks: as a mapping, and as ``torch.compile(options=...)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from types import ModuleType
from typing import Any

from .option_values import DECOMPOSITION_MODES, EXECUTABLES, to_bool, to_choice

_CHOICES = {"decomposition_mode": DECOMPOSITION_MODES, "executable": EXECUTABLES}


class ConfigurationFlags(MutableMapping[str, Any]):
    """The options of a config module as a mapping with fixed keys. Setting an option checks its value.

    Raises:
        KeyError: the option does not exist, or the program deletes an option.
        AssertionError: the value is invalid for the option.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        return getattr(self._module, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._check(name)
        setattr(self._module, name, convert_option_value(name, value))

    def __delitem__(self, name: str) -> None:
        raise KeyError(f"option {name!r} cannot be deleted. Set it to its default instead.")

    def __iter__(self) -> Iterator[str]:
        return iter(option_names(self._module))

    def __len__(self) -> int:
        return len(option_names(self._module))

    def _check(self, name: str) -> None:
        if name not in option_names(self._module):
            raise KeyError(f"{name!r} is not an option of hpu_backend. Use one of {', '.join(self)}.")


def option_names(module: ModuleType) -> list[str]:
    """Return the names of the options in alphabetical order."""
    return sorted(name for name in module.get_config_copy() if not name.startswith("_"))


def convert_option_value(name: str, value: Any) -> Any:
    """Convert a value to the type of the option.

    Raises:
        AssertionError: the value is invalid for the option.
    """
    if name in _CHOICES:
        return to_choice(name, value, _CHOICES[name])
    return to_bool(name, value)


def merged_options(module: ModuleType, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return all options, with the options of one ``torch.compile`` call in place of the module's values.

    Args:
        module: the config module.
        options: options of the call.

    Raises:
        RuntimeError: an option is unknown; the message lists the valid options.
        AssertionError: a value is invalid for its option.
    """
    names = option_names(module)
    settings = {name: getattr(module, name) for name in names}
    for name, value in (options or {}).items():
        if name not in settings:
            raise RuntimeError(f"unknown option {name!r} of hpu_backend. Use one of {', '.join(names)}.")
        settings[name] = convert_option_value(name, value)
    return settings
