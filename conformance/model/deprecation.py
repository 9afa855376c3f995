"""Keep old names of modules, attributes and keywords for one release. Each use issues a
DeprecationWarning.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


def getattr_for_moved_module(
    old: str,
    modules: Sequence[str],
    names: Sequence[str] | None = None,
    renamed_names: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the module ``old`` that looks names up in ``modules``, in order.

    ``names``, if given, lists the names that may be looked up, so that any other name does not import
    ``modules``. ``renamed_names`` maps old names to current names. Each access issues a DeprecationWarning
    that names the new module. A name that no module defines raises AttributeError.
    """

    def resolve(name: str) -> Any:
        if not name.startswith("__") and (names is None or name in names):
            current = (renamed_names or {}).get(name, name)
            for new in modules:
                module = importlib.import_module(new)
                if hasattr(module, current):
                    warnings.warn(
                        f"{old}.{name} has moved to {new}; import it from conformance.extension",
                        DeprecationWarning,
                        stacklevel=2,
                    )
                    return getattr(module, current)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return resolve


def getattr_for_renamed_attributes(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``module`` that resolves the old names of its attributes.

    ``names`` maps each old name to the current name.
    Each access issues a DeprecationWarning. Any other name raises AttributeError.
    """

    def resolve(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now called {names[name]}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(module), names[name])

    return resolve


def accept_old_keywords(**keywords: str) -> Callable[[_F], _F]:
    """Return a decorator that lets a function accept old keywords.

    ``keywords`` maps each old keyword to the current keyword. A call with an old keyword issues a
    DeprecationWarning.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old, new in keywords.items():
                if old in kwargs:
                    warnings.warn(
                        f"{function.__name__}({old}=…) is now called {new}", DeprecationWarning, stacklevel=2
                    )
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast("_F", call)

    return decorate
