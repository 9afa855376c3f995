"""Run callbacks after the program has imported a module, without importing the module here.

Patches use these hooks for modules that ``import torch`` does not always load (`torch._refs`, Dynamo), so
that loading the device stays fast.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Callback = Callable[[ModuleType], None]


def run_after_import(name: str, callback: Callback) -> None:
    """Call `callback(module)` now if the module is imported, otherwise immediately after its import.

    Args:
        name: full name of the module.
        callback: receives the module and runs once. If it raises, the import fails.
    """
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
        return
    _finder.waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _WaitingFinder(importlib.abc.MetaPathFinder):
    """Finder that finds modules with callbacks through the other finders, and wraps their loaders."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callback]] = {}
        self._searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.waiting or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _NotifyingLoader(spec.loader)
        return spec


class _NotifyingLoader(importlib.abc.Loader):
    """Loader that executes a module with the module's own loader, and then runs the callbacks."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Restore the module's own loader: inspect.getsource reads the source through ``__loader__``.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for callback in _finder.waiting.pop(module.__name__, []):
            callback(module)


_finder = _WaitingFinder()
