"""Check wrapper subclasses with ``__torch_dispatch__``, dispatch modes, and ``__torch_function__``."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class WrapperSubclass(torch.Tensor):
    """A wrapper subclass that holds an inner tensor. It records the name of each operator and runs it on the
    inner tensors.
    """

    log: ClassVar[list[str]] = []  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        """Return a wrapper with the metadata of ``inner``."""
        wrapper: Any = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )
        wrapper.inner = inner.detach()
        return wrapper

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return f"WrapperSubclass({self.inner!r})"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> WrapperSubclass:
        return WrapperSubclass(inner["inner"])  # type: ignore[no-any-return]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        WrapperSubclass.log.append(str(function.overloadpacket.__name__))
        unwrapped = tree_map(lambda t: t.inner if isinstance(t, WrapperSubclass) else t, (args, kwargs or {}))
        result = function(*unwrapped[0], **unwrapped[1])
        if function.overloadpacket.__name__.endswith("_"):
            return args[0]
        return tree_map(lambda t: WrapperSubclass(t) if isinstance(t, torch.Tensor) else t, result)


class OperatorRecordingMode(TorchDispatchMode):
    """A mode that records the name of each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@behaviour(
    "subclass",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    ground="The note documents __torch_dispatch__; the function that creates wrappers is private",
)
def wrapper_subclasses(lab: Lab) -> None:
    """A wrapper subclass reports the metadata of its inner tensor and intercepts every operator. Its
    gradients are computed and wrapped.
    """
    inner = lab.integers(4, 6).t().diagonal(offset=1)
    WrapperSubclass.log.clear()
    x = WrapperSubclass(inner)
    lab.same("metadata", [x.shape, x.dtype, x.device.type == lab.device.type])
    with lab.consistent("A wrapper must report the strides and the offset with which it was made"):
        lab.holds(
            "strides and offset are those of the inner tensor",
            (x.stride(), x.storage_offset()) == (inner.stride(), inner.storage_offset()),
        )
    y = (x * 2 + x).sum()
    lab.holds("results are wrapped", type(y) is WrapperSubclass)
    lab.same("value", y.inner)
    with lab.parity("No page fixes the list of operators that reach a subclass"):
        lab.same("operators", list(WrapperSubclass.log))
    leaf: Any = WrapperSubclass(lab.integers(3)).requires_grad_()
    WrapperSubclass.log.clear()
    (leaf * leaf).sum().backward()
    lab.holds("gradients are wrapped", type(leaf.grad) is WrapperSubclass)
    lab.same("gradient", leaf.grad.inner)
    with lab.parity("No page fixes the list of operators that reach a subclass"):
        lab.holds(
            "__torch_dispatch__ intercepts the operators of the backward pass",
            "mul" in WrapperSubclass.log and "add" in WrapperSubclass.log,
        )
    changed = WrapperSubclass(lab.integers(3))
    version = changed._version
    lab.holds("add_ returns its wrapper", changed.add_(1) is changed)
    with lab.parity("The attribute or function is private and undocumented"):
        lab.same("changed", [changed.inner, changed._version - version])
    for name in ("empty_like", "ones_like", "zeros_like"):
        lab.holds(f"{name} is wrapped", type(getattr(torch, name)(x)) is WrapperSubclass)
    lab.holds("new_ones is wrapped", type(x.new_ones(2)) is WrapperSubclass)
    lab.holds(
        "views and parts are wrapped",
        all(type(t) is WrapperSubclass for t in (x[1:], x.view(-1), *x.unbind(0))),
    )
    mixed = torch.ones(4, device=lab.device)
    lab.same("with a plain tensor", (mixed[: x.shape[0]] + x).inner)
    target = lab.integers(5)
    lab.holds(
        "the result of indexing by a wrapper is wrapped",
        type(target[WrapperSubclass(lab.put([1, 0]))]) is WrapperSubclass,
    )
    with lab.parity("No page fixes the text of repr"):
        lab.holds(
            "str, repr and format of a wrapper agree",
            repr(x).startswith("WrapperSubclass(") and str(x) == repr(x) == f"{x}",
        )
    huge = torch.Tensor._make_wrapper_subclass(WrapperSubclass, (10**12,))
    with lab.parity("The attribute or function is private and undocumented"):
        lab.same("number of elements of a wrapper larger than memory", huge.numel())
    lab.same("host copy", x.cpu().inner, host=True)


@behaviour(
    "subclass",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.parameter.Parameter.html",
    ground="The page documents parameters; it does not mention other subclasses",
)
def subclasses_as_parameters(lab: Lab) -> None:
    """Tensors of a subclass can be parameters of modules and optimizers. They keep their type and can be
    deep-copied.
    """
    for expected in (True, False):
        source = WrapperSubclass(lab.integers(3))
        parameter = torch.nn.Parameter(source, requires_grad=expected)
        lab.holds(
            f"a parameter with requires_grad={expected} is a Parameter",
            isinstance(parameter, torch.nn.Parameter),
        )
        lab.same(
            f"requires_grad of parameter and source, {expected}",
            [parameter.requires_grad, source.requires_grad],
        )
        lab.holds("the source is not a parameter", not isinstance(source, torch.nn.Parameter))
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(WrapperSubclass(lab.integers(3)))
    lab.same("listed", [name for name, _ in module.named_parameters()])
    lab.same("in the state", list(module.state_dict()))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, foreach=False)
    (module.weight * 2).sum().backward()
    optimizer.step()
    lab.same("after a step", module.weight.inner)
    copied = copy.deepcopy(WrapperSubclass(lab.integers(3)))
    with lab.consistent("A deep copy must agree with the original in class"):
        lab.holds("a deep copy is wrapped", type(copied) is WrapperSubclass)
    plain_subclass = lab.integers(3).as_subclass(PlainSubclass)
    lab.holds(
        "operators keep the subclass",
        type(plain_subclass + 1) is PlainSubclass and type(plain_subclass.t()) is PlainSubclass,
    )
    with lab.parity("No page gives the class of an operator's result for a parameter of a subclass"):
        lab.holds(
            "the sum of a parameter of the subclass is not a Parameter",
            not isinstance(torch.nn.Parameter(plain_subclass) + 1, torch.nn.Parameter),
        )
    lab.same("its value", (plain_subclass + 1).as_subclass(torch.Tensor))
    with lab.parity("No page fixes the text of repr"):
        lab.holds("repr names the subclass", "PlainSubclass(" in repr(plain_subclass))


class PlainSubclass(torch.Tensor):
    """A tensor subclass that overrides nothing."""


@behaviour(
    "subclass", must_detect=("error",), basis="parity", ground="No page says that these calls are refused"
)
def misuse_of_subclasses(lab: Lab) -> None:
    """Access to the data of a wrapper's storage raises an error. So do results of a wrong type and a wrapper
    class without ``__torch_dispatch__``. An exception in ``__torch_dispatch__`` propagates to the caller.
    """

    class SubclassRaisingKeyError(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
            raise KeyError("refused")

    class DerivedSubclassRaisingIndexError(SubclassRaisingKeyError):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
            raise IndexError("later")

    class SubclassReturningString(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
            return "a word"

    x = lab.integers(2)
    first, second = x.as_subclass(SubclassRaisingKeyError), x.as_subclass(DerivedSubclassRaisingIndexError)
    with torch._C.DisableTorchFunctionSubclass():
        lab.raises("an error in __torch_dispatch__ propagates", lambda: first + 1, KeyError)
        lab.raises(
            "__torch_dispatch__ of the more derived class runs first", lambda: first + second, IndexError
        )
        lab.raises("the more derived class as left operand", lambda: second + first, IndexError)
        lab.raises(
            "a result that is not a tensor",
            lambda: x.as_subclass(SubclassReturningString).neg(),
            RuntimeError,
            TypeError,
        )
    lab.raises(
        "a class without __torch_dispatch__",
        lambda: torch.Tensor._make_wrapper_subclass(PlainSubclass, (2,)),
        TypeError,
    )
    storage = WrapperSubclass(x).untyped_storage()
    lab.raises("data of a wrapper", lambda: storage.data_ptr(), match="storage")
    lab.raises("writing the data of a wrapper", lambda: storage.fill_(0), match="storage")
    lab.raises(
        "as_subclass of a wrapper", lambda: WrapperSubclass(x).as_subclass(PlainSubclass), match="already"
    )
    lab.same("plain", x)


@behaviour("subclass", capabilities=("autograd",), level="core", must_detect=("value",))
def dispatch_modes(lab: Lab) -> None:
    """A mode intercepts each operator, including views, factories and backward operators. Of nested modes,
    the innermost runs first. After its context ends, a mode has no effect.
    """
    x = lab.integers(3, 3, requires_grad=True)
    with OperatorRecordingMode() as outer:
        y = torch.mm(x, x).t()
        zeros = torch.zeros(2, device=lab.device)
        with OperatorRecordingMode() as inner:
            z = y * 2
        z.sum().backward()
    after = x + 1
    with lab.parity("No page fixes the exact list of operators that reach a mode"):
        lab.same("outer", outer.seen)
        lab.same("inner", inner.seen)
    lab.same("gradient", x.grad)
    lab.same("values", [z.detach(), zeros, after.detach()])

    class NegationDoublingMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.ops.aten.neg.default else result

    with NegationDoublingMode():
        doubled = -x.detach()
    lab.same("a mode that changes a result", doubled)
    mode = NegationDoublingMode()
    with mode, mode:
        lab.same("entered twice", -x.detach())

    class FailingMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise KeyError("in the mode")

    def create_under_failing_mode() -> None:
        with FailingMode():
            torch.ones(2, device=lab.device)

    lab.raises("an error in a mode", create_under_failing_mode, KeyError)
    lab.same("a factory after a mode that failed", torch.ones(2, device=lab.device))
    with OperatorRecordingMode() as notes:
        wrapped = WrapperSubclass(lab.integers(2)) + 1
    lab.holds(
        "a mode intercepts an operator before a subclass",
        notes.seen.count("add") >= 1 and type(wrapped) is WrapperSubclass,
    )


@behaviour("subclass", level="core", must_detect=("value",))
def function_overrides(lab: Lab) -> None:
    """``__torch_function__`` of a tensor subclass or of any other class intercepts functions and methods that
    receive its instances. A ``TorchFunctionMode`` intercepts all calls.
    """
    calls: list[str] = []

    class FunctionRecordingSubclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, types, args, kwargs or {})

    class TensorLike:
        """A class that is not a tensor, but whose ``__torch_function__`` lets torch treat its instances as
        tensors.
        """

        def __init__(self, inner: torch.Tensor) -> None:
            self.inner = inner

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            unwrapped = [a.inner if isinstance(a, TensorLike) else a for a in args]
            return function(*unwrapped, **(kwargs or {}))

    class DecliningOverride:
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x = lab.integers(3)
    listens = x.as_subclass(FunctionRecordingSubclass)
    result = torch.add(listens, 1).mul(2)
    lab.holds("results have the subclass", type(result) is FunctionRecordingSubclass)
    lab.same("value", result.as_subclass(torch.Tensor))
    lab.same("calls", [c for c in calls if c in ("add", "mul")])
    lab.same("a stand-in", torch.add(TensorLike(x), 2))  # type: ignore[call-overload]
    lab.same("on the right", torch.mul(x, TensorLike(x)))  # type: ignore[arg-type]
    lab.same("of a functional", torch.nn.functional.relu(TensorLike(x)))  # type: ignore[arg-type]
    lab.raises(
        "neither class handles it",
        lambda: torch.add(DecliningOverride(), 1),  # type: ignore[call-overload]
        TypeError,
        type_is_documented=True,
    )

    class NegationTriplingMode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.neg:
                return function(*args, **(kwargs or {})) * 3
            return function(*args, **(kwargs or {}))

    with NegationTriplingMode():
        lab.same("under a mode", torch.neg(x))
        with (
            torch._C.DisableTorchFunction(),
            lab.parity("The attribute or function is private and undocumented"),
        ):
            lab.same("with overrides off", torch.neg(x))
    lab.same("afterwards", torch.neg(x))
    with (
        torch._C.DisableTorchFunctionSubclass(),
        lab.parity("The attribute or function is private and undocumented"),
    ):
        lab.holds(
            "a disabled __torch_function__ does not wrap the result", type(torch.neg(listens)) is torch.Tensor
        )
    lab.same("overridable", [torch.overrides.is_tensor_like(t) for t in (x, TensorLike(x), 3)])
