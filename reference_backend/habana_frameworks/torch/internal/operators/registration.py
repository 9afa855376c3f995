"""Register the operators of `schemas.txt` with torch.

Most operators are composite, written with torch's operators: autograd, lazy mode, graphs and `torch.compile`
process only torch's operators. A few operators are opaque: graphs call an opaque operator as a unit, and most
opaque operators have no derivative. A module of implementations is imported when one of its operators is
called for the first time.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE, DISPATCH_KEY

import torch

from ..settings import mode

_SECTION = re.compile(r"\[(\w+)((?: (?:lazy|seeded|opaque))*)\]")

#: Opaque operators with a derivative, which the functions ``NAME_setup`` and ``NAME_derivative`` implement.
_DIFFERENTIABLE = frozenset({"roi_align_by_size", "roi_align_by_size_backward"})

_libraries: list[torch.library.Library] = []


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of ``torch.ops.hpu``, and the name of the Python module that implements it."""

    schema: str
    module: str
    #: In lazy mode, this schema replaces another schema of the same name.
    is_lazy: bool = False
    #: The operator returns its results and then the seed, which is its first argument.
    returns_seed: bool = False
    #: Graphs keep the operator as a unit, because its decomposition is too long for graphs.
    is_opaque: bool = False

    @property
    def name(self) -> str:
        """Return the name with the overload, such as ``softmax_fp8.Scalar``."""
        return self.schema.partition("(")[0]

    def function(self, suffix: str = "") -> Callable[..., Any]:
        """Import and return the implementation, or the function with this suffix, such as ``meta``."""
        base, _, overload = self.name.partition(".")
        base = base.removesuffix("_checkpoint") if self.returns_seed else base
        module = importlib.import_module(f".{self.module}", __package__)
        suffix = suffix or ("lazy" if self.is_lazy else overload)
        function = getattr(module, f"{base}_{suffix}", None) if suffix else None
        function = function or getattr(module, base)
        return _function_returning_seed(function) if self.returns_seed else function


def declared_operators() -> Iterator[Operator]:
    """Yield the operators of `schemas.txt`."""
    module, marks = "", ""
    for line in Path(__file__).with_name("schemas.txt").read_text().splitlines():
        section = _SECTION.fullmatch(line)
        if section is not None:
            module, marks = section[1], section[2]
        elif line and not line.startswith("#"):
            is_opaque = "opaque" in marks
            yield Operator(line, module, "lazy" in marks, is_opaque=is_opaque)
            if "seeded" in marks:
                yield Operator(_schema_returning_seed(line), module, returns_seed=True, is_opaque=is_opaque)


def register_operators() -> None:
    """Define all operators of the current mode. A second call does nothing."""
    if _libraries:
        return
    library = torch.library.Library("hpu", "FRAGMENT")
    _libraries.append(library)
    chosen = {
        operator.name: operator for operator in declared_operators() if not operator.is_lazy or mode.is_lazy()
    }
    for operator in chosen.values():
        library.define(operator.schema)
        if operator.is_opaque:
            library.impl(operator.name, _make_kernel(operator), DISPATCH_KEY)
            library.impl(operator.name, _make_kernel(operator, "meta"), "Meta")
            if operator.name in _DIFFERENTIABLE:
                torch.library.register_autograd(
                    f"hpu::{operator.name}",
                    _make_kernel(operator, "derivative"),
                    setup_context=_make_kernel(operator, "setup"),
                    lib=library,
                )
        else:
            library.impl(operator.name, _make_kernel(operator), "CompositeImplicitAutograd")


def _make_kernel(operator: Operator, suffix: str = "") -> Callable[..., Any]:
    function: Callable[..., Any] | None = None
    #: True for optimizer steps, which run without autograd because they write to parameters that require
    #: gradients.
    writes = operator.module == "optimizers"

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal function
        if function is None:
            function = operator.function(suffix)
        _reject_cpu_tensors(operator, args)  # tensors are never keyword arguments here
        # Autocast selects dtypes by operator name, but these operators have their own dtype rules.
        with torch._C._DisableAutocast():
            if not writes:
                return function(*args, **kwargs)
            with torch.no_grad():
                return function(*args, **kwargs)

    return call


def _reject_cpu_tensors(operator: Operator, args: Iterable[Any]) -> None:
    """Reject CPU tensors that are not 0-dim, as the device's kernels do. Lazy mode accepts CPU tensors."""
    for value in args:
        if isinstance(value, torch.Tensor):
            if value.is_cpu and value.dim() and not mode.is_lazy():
                raise RuntimeError(
                    f"hpu::{operator.name} takes device tensors, but a tensor of shape {list(value.shape)} "
                    f"is on the CPU. Move it with .to('{DEVICE_TYPE}')."
                )
        elif isinstance(value, (list, tuple)):
            _reject_cpu_tensors(operator, value)


def _schema_returning_seed(schema: str) -> str:
    name, _, rest = schema.partition("(")
    base, dot, overload = name.partition(".")
    arguments, _, results = rest.rpartition(" -> ")
    inner = results.removeprefix("(").removesuffix(")")
    return f"{base}_checkpoint{dot}{overload}({arguments} -> ({inner}, Tensor)"


def _function_returning_seed(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(seed: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        result = function(seed, *args, **kwargs)
        return (*(result if isinstance(result, tuple) else (result,)), seed.clone())

    return call
