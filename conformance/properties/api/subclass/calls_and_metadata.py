"""Check tensor subclasses and dispatch modes: how they forward and decline calls, their metadata, and
saving.
"""

from __future__ import annotations

import io
from typing import Any, ClassVar

import torch
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.subclass.dispatch import WrapperSubclass


class OperatorRecordingSubclass(torch.Tensor):
    """A subclass that records each operator and forwards it to torch with ``super()``."""

    calls: ClassVar[list[str]] = []
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        OperatorRecordingSubclass.calls.append(str(function))
        return super().__torch_dispatch__(function, types, list(args), kwargs or {})  # type: ignore[arg-type]


@behaviour(
    "subclass",
    must_detect=("value",),
    basis="parity",
    ground="The note does not say that super() forwards an operator inside __torch_dispatch__",
)
def calling_on(lab: Lab) -> None:
    """``__torch_dispatch__`` of a subclass can forward an operator to torch with ``super()``. Tensors of any
    dtype can have the subclass. Assignment to ``.data`` works.
    """
    x, y = lab.integers(3), lab.integers(3)
    OperatorRecordingSubclass.calls.clear()
    lab.same(
        "sum",
        (x.as_subclass(OperatorRecordingSubclass) + y.as_subclass(OperatorRecordingSubclass)).as_subclass(
            torch.Tensor
        ),
    )
    lab.same("calls", [call for call in OperatorRecordingSubclass.calls if "add" in call])
    with lab.documented():
        lab.holds(
            "an integer tensor can have the subclass",
            type(lab.integers(2, dtype=torch.int32).as_subclass(OperatorRecordingSubclass))
            is OperatorRecordingSubclass,
        )
    OperatorRecordingSubclass.calls.clear()
    direct = x.as_subclass(OperatorRecordingSubclass)
    direct.data = lab.integers(4)
    lab.same("other data", [list(direct.shape), type(direct) is OperatorRecordingSubclass])
    z = lab.integers(2, dtype=torch.complex64).as_subclass(OperatorRecordingSubclass)
    lab.close("with a lazy conjugate", z.conj().exp().as_subclass(torch.Tensor).resolve_conj(), roundings=128)
    leaf = lab.integers(3).as_subclass(OperatorRecordingSubclass).requires_grad_()
    lab.holds("the result of an operator requires grad", (-leaf).requires_grad)


@behaviour(
    "subclass",
    must_detect=("value",),
    ground="The note describes the calling convention of __torch_dispatch__",
)
def what_subclasses_are_given(lab: Lab) -> None:
    """``__torch_dispatch__`` receives no arguments that have their default values. It receives dtypes as
    ``torch.dtype`` objects and ``out=`` as a keyword argument. An operator whose list argument contains None
    can be called with a subclass.
    """
    recorded_calls: list[Any] = []

    class ArgumentRecordingMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            keywords = sorted(f"{name}: {type(value).__name__}" for name, value in (kwargs or {}).items())
            recorded_calls.append([str(function), len(args), keywords])
            return function(*args, **(kwargs or {}))

    x, matrix, vector = lab.integers(2), lab.integers(2, 2), lab.integers(2)
    out = lab.integers(2)
    with ArgumentRecordingMode():
        first = torch.addmv(x, matrix, vector)
        second = torch.addmv(x, matrix, vector, beta=1)
        third = torch.addmv(x, matrix, vector, beta=2, alpha=3)
        torch.abs(x, out=out)
        torch.cumprod(x, 0, dtype=lab.other_float)
        x.to(lab.other_float)
        matrix[:, 1].contiguous(memory_format=torch.contiguous_format)
    basic = ("aten.addmv.", "aten.abs.", "aten.cumprod.")
    lab.same("arguments", [entry for entry in recorded_calls if entry[0].startswith(basic)])
    with lab.parity("No page fixes the list of operators that reach a mode"):
        lab.same(
            "seen",
            [entry for entry in recorded_calls if "slice" not in entry[0] and "select" not in entry[0]],
        )
    lab.same("values", [first, second, third, out])

    line = lab.integers(4)
    with torch.library._scoped_library("conformance_suite", "FRAGMENT") as library:
        library.define("maybes(Tensor?[] xs) -> Tensor")
        library.impl("maybes", lambda xs: xs[1] * 2, "CompositeExplicitAutograd")
        op = torch.ops.conformance_suite.maybes
        with lab.parity("No page says that a list argument may contain None"):
            lab.same("a list with None", op([None, line]))
            wrapped = op([None, WrapperSubclass(line)])
            lab.same("with a subclass", wrapped.inner)


@behaviour(
    "subclass",
    must_detect=("value", "error"),
    ground="The note treats a mode as a subclass in front of all arguments",
)
def modes_that_refuse(lab: Lab) -> None:
    """A dispatch mode can return NotImplemented to decline a call. Modes run before subclasses. A mode whose
    ``__torch_dispatch__`` is a classmethod raises an error.
    """
    counts = {"mode": 0, "class": 0}

    class ModeDecliningSubclasses(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counts["mode"] += 1
            if any(t is not torch.Tensor for t in types):
                return NotImplemented
            return function(*args, **(kwargs or {}))

    class CallCountingSubclass(WrapperSubclass):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
            counts["class"] += 1
            return function(
                *[a.inner if isinstance(a, CallCountingSubclass) else a for a in args], **(kwargs or {})
            )

    x = lab.integers(3)
    counted = CallCountingSubclass(x)
    with torch._C.DisableTorchFunctionSubclass():
        with ModeDecliningSubclasses():
            result = torch.abs(counted)
        lab.same("value", result)
        with lab.parity("No page fixes the number of calls"):
            lab.same("counts", dict(counts))
        with ModeDecliningSubclasses(), ModeDecliningSubclasses():
            lab.same("twice", torch.abs(counted))

    class FirstModeError(Exception):
        pass

    class FailingMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise FirstModeError

    def add_under_failing_mode() -> None:
        with FailingMode():
            WrapperSubclass(x) + 1

    lab.raises("a mode goes before a subclass", add_under_failing_mode, FirstModeError)

    class ModeWithClassmethod(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    def add_under_classmethod_mode() -> None:
        with ModeWithClassmethod():
            x + 1

    with lab.parity("No page says that a classmethod is refused"):
        lab.raises("a classmethod", add_under_classmethod_mode, match="classmethod")

    class SubclassCreatingMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(
                *[a.inner if isinstance(a, WrapperSubclass) else a for a in args], **(kwargs or {})
            )
            return WrapperSubclass(result) if isinstance(result, torch.Tensor) else result

    with SubclassCreatingMode():
        y = x + x
        z = y + y
    lab.holds("a mode can return subclasses", type(y) is WrapperSubclass and type(z) is WrapperSubclass)
    lab.same("value of the subclass", z.inner)
    with lab.parity("No page says that tolist refuses a subclass"):
        lab.raises("tolist of a wrapper subclass", lambda: WrapperSubclass(x).tolist())
    with lab.parity("No page says that numpy refuses a subclass"):
        lab.raises("numpy of a wrapper subclass", lambda: WrapperSubclass(x).numpy(), RuntimeError, TypeError)


@behaviour(
    "subclass",
    must_detect=("value", "error"),
    basis="parity",
    ground="wrapper subclasses and their dispatch policies are undocumented",
)
def metadata_of_subclasses(lab: Lab) -> None:
    """A wrapper subclass with a dispatch policy determines the sizes, strides, device and layout that it
    reports. If its ``__torch_dispatch__`` returns NotImplemented, an error is raised.
    """

    def wrapper_with_fixed_results(answers: dict[Any, Any], **policy: Any) -> torch.Tensor:
        class SubclassWithFixedResults(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
                return answers.get(function.overloadpacket, NotImplemented)

        return torch.Tensor._make_wrapper_subclass(
            SubclassWithFixedResults, (6, 2), device=lab.device, **policy
        )

    aten, prim = torch.ops.aten, torch.ops.prim
    lab.same(
        "dimensions", wrapper_with_fixed_results({aten.dim: 2}, dispatch_sizes_strides_policy="sizes").dim()
    )
    lab.same(
        "sizes",
        wrapper_with_fixed_results(
            {aten.dim: 2, aten.sym_size: (5, 3)}, dispatch_sizes_strides_policy="sizes"
        ).size(),
    )
    lab.same(
        "sizes as they are",
        wrapper_with_fixed_results(
            {aten.dim: 2, aten.sym_size: None}, dispatch_sizes_strides_policy="sizes"
        ).size(),
    )
    lab.same(
        "strides",
        wrapper_with_fixed_results(
            {aten.sym_stride: (4, 2)}, dispatch_sizes_strides_policy="strides"
        ).stride(),
    )
    lab.same(
        "strides as they are",
        wrapper_with_fixed_results({aten.sym_stride: None}, dispatch_sizes_strides_policy="strides").stride(),
    )
    lab.same(
        "contiguous",
        wrapper_with_fixed_results(
            {aten.is_contiguous: True}, dispatch_sizes_strides_policy="strides"
        ).is_contiguous(),
    )
    lab.same(
        "device",
        wrapper_with_fixed_results({prim.device: torch.device("meta")}, dispatch_device=True).device.type,
    )
    lab.same(
        "layout", wrapper_with_fixed_results({prim.layout: torch.sparse_csr}, dispatch_layout=True).layout
    )
    for name, call in {
        "sizes": lambda: wrapper_with_fixed_results(
            {aten.dim: 2}, dispatch_sizes_strides_policy="sizes"
        ).size(),
        "dimensions": lambda: wrapper_with_fixed_results({}, dispatch_sizes_strides_policy="sizes").dim(),
        "strides": lambda: wrapper_with_fixed_results({}, dispatch_sizes_strides_policy="strides").stride(),
        "contiguity": lambda: wrapper_with_fixed_results(
            {}, dispatch_sizes_strides_policy="strides"
        ).is_contiguous(),
        "layout": lambda: wrapper_with_fixed_results({}, dispatch_layout=True).layout,
    }.items():
        lab.raises(f"no answer for {name}", call, TypeError)
    lab.same("a plain one", lab.integers(2) + 1)


@behaviour(
    "subclass",
    capabilities=(
        "autograd",
        "serialization",
    ),
    must_detect=("value",),
    basis="consistency",
    ground=(
        "A loaded, parametrized or differentiated subclass must agree with the original in class and value"
    ),
)
def subclasses_saved_and_parametrized(lab: Lab) -> None:
    """Wrapper subclasses can be saved with ``torch.save`` and used in ``autograd.Function``s. Parameters of a
    subclass can be parametrized in modules.
    """
    x = WrapperSubclass(lab.integers(3))
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    lab.holds("the loaded tensor is a wrapper", type(loaded) is WrapperSubclass and loaded is not x)
    lab.same("loaded value", loaded.inner)

    class NegativeParametrization(torch.nn.Module):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return -t

    class PlainSubclass(torch.Tensor):
        pass

    for leave in (True, False):
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(lab.integers(3).as_subclass(PlainSubclass))
        register_parametrization(module, "weight", NegativeParametrization())
        lab.holds("a parametrized weight keeps its class", isinstance(module.weight, PlainSubclass))
        lab.same("its value", module.weight.detach().as_subclass(torch.Tensor))
        remove_parametrizations(module, "weight", leave_parametrized=leave)
        with lab.documented():
            lab.same(f"removed, left {leave}", module.weight.detach().as_subclass(torch.Tensor))

    class SquareFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            ctx.save_for_backward(t)
            return t * t

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (t,) = ctx.saved_tensors
            kinds.append((type(t).__name__, type(grad).__name__))
            return grad * 2 * t

    kinds: list[Any] = []
    leaf: Any = WrapperSubclass(lab.integers(3)).requires_grad_()
    SquareFunction.apply(leaf).backward(WrapperSubclass(lab.put([1.0, 1.0, 1.0])))
    with lab.parity("No page says which classes reach backward of a Function"):
        lab.same("kinds in a Function", kinds)
    lab.same("gradient", leaf.grad.inner)
