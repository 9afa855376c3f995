"""Hands the operators of `schemas.txt` to torch.

Each is a composite operator, written with operators of torch: autograd, lazy mode, graphs and `torch.compile`
see only those. Few are opaque: graphs call them as a whole, and most have no derivative. A module of
implementations is imported when one of its operators is called first.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from ..settings import mode

_SECTION = re.compile(r"\[(\w+)((?: (?:lazy|seeded|opaque))*)\]")

#: Opaque operators with a derivative: functions named ``NAME_setup`` and ``NAME_derivative``.
_DIFFERENTIABLE = frozenset({"roi_align_by_size", "roi_align_by_size_backward"})

_libraries: list[torch.library.Library] = []


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of ``torch.ops.hpu`` and the module that computes it."""

    schema: str
    module: str
    #: Whether lazy mode has this schema in place of another under the same name.
    is_lazy: bool = False
    #: Whether the seed, the first argument, is returned after the results.
    returns_seed: bool = False
    #: Whether graphs keep it as it is, since what it is made of is too long for them.
    is_opaque: bool = False

    @property
    def name(self) -> str:
        """Name with the overload, such as ``softmax_fp8.Scalar``."""
        return self.schema.partition("(")[0]

    def function(self, suffix: str = "") -> Callable[..., Any]:
        """Import what computes the operator, or with ``meta`` its shapes."""
        base, _, overload = self.name.partition(".")
        base = base.removesuffix("_checkpoint") if self.returns_seed else base
        module = importlib.import_module(f".{self.module}", __package__)
        suffix = suffix or ("lazy" if self.is_lazy else overload)
        found = getattr(module, f"{base}_{suffix}", None) if suffix else None
        found = found or getattr(module, base)
        return _and_seed(found) if self.returns_seed else found


def operators() -> Iterator[Operator]:
    """Read `schemas.txt`."""
    module, marks = "", ""
    for line in Path(__file__).with_name("schemas.txt").read_text().splitlines():
        section = _SECTION.fullmatch(line)
        if section is not None:
            module, marks = section[1], section[2]
        elif line and not line.startswith("#"):
            is_opaque = "opaque" in marks
            yield Operator(line, module, "lazy" in marks, is_opaque=is_opaque)
            if "seeded" in marks:
                yield Operator(_with_seed(line), module, returns_seed=True, is_opaque=is_opaque)


def register() -> None:
    """Define all operators of the mode that runs. A second call does nothing."""
    if _libraries:
        return
    library = torch.library.Library("hpu", "FRAGMENT")
    _libraries.append(library)
    chosen = {one.name: one for one in operators() if not one.is_lazy or mode.is_lazy()}
    for one in chosen.values():
        library.define(one.schema)
        if one.is_opaque:
            library.impl(one.name, _kernel(one), "HPU")
            library.impl(one.name, _kernel(one, "meta"), "Meta")
            if one.name in _DIFFERENTIABLE:
                torch.library.register_autograd(
                    f"hpu::{one.name}",
                    _kernel(one, "derivative"),
                    setup_context=_kernel(one, "setup"),
                    lib=library,
                )
        else:
            library.impl(one.name, _kernel(one), "CompositeImplicitAutograd")


def _kernel(operator: Operator, suffix: str = "") -> Callable[..., Any]:
    function: Callable[..., Any] | None = None
    #: Steps write into parameters, which want gradients.
    writes = operator.module == "optimizers"

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal function
        if function is None:
            function = operator.function(suffix)
        _refuse_host(operator, args)  # tensors are never keywords here
        # Autocast chooses dtypes for operators by name, and these have their own rules.
        with torch._C._DisableAutocast():
            if not writes:
                return function(*args, **kwargs)
            with torch.no_grad():
                return function(*args, **kwargs)

    return call


def _refuse_host(operator: Operator, args: Iterable[Any]) -> None:
    """Refuse tensors of the host, as the device does; lazy mode takes them."""
    for value in args:
        if isinstance(value, torch.Tensor):
            if value.is_cpu and value.dim() and not mode.is_lazy():
                raise RuntimeError(
                    f"hpu::{operator.name} takes tensors of the device, and one of shape {list(value.shape)} "
                    "is on the CPU: move it with .to('hpu')"
                )
        elif isinstance(value, (list, tuple)):
            _refuse_host(operator, value)


def _with_seed(schema: str) -> str:
    name, _, rest = schema.partition("(")
    base, dot, overload = name.partition(".")
    arguments, _, results = rest.rpartition(" -> ")
    inner = results.removeprefix("(").removesuffix(")")
    return f"{base}_checkpoint{dot}{overload}({arguments} -> ({inner}, Tensor)"


def _and_seed(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(seed: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = function(seed, *args, **kwargs)
        return (*(found if isinstance(found, tuple) else (found,)), seed.clone())

    return call
