"""Check ``__torch_function__``: the order of calls, objects in lists and indices, the classes of results, and
nested modes.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, wrap_torch_function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class ReturnsFunctionName:
    """A class that is not a tensor. For every function, it returns its class name and the function name."""

    def __init__(self, value: int = 1) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return [cls.__name__, function.__name__]


class DerivedReturnsFunctionName(ReturnsFunctionName):
    """A subclass of :class:`ReturnsFunctionName`. torch calls its ``__torch_function__`` before the method of
    the base class.
    """


class DeclinesFunctions:
    """A class that returns NotImplemented for every function and counts the calls."""

    requests = 0

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        DeclinesFunctions.requests += 1
        return NotImplemented


class RaisesInTorchFunction:
    """A class whose ``__torch_function__`` raises an error."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise LookupError(function.__name__)


class PlainSubclass(torch.Tensor):
    """A tensor subclass that overrides nothing."""


class DerivedSubclass(PlainSubclass):
    """A subclass of :class:`PlainSubclass`."""


class UnrelatedSubclass(torch.Tensor):
    """A tensor subclass that is unrelated to :class:`PlainSubclass`."""


def overridable_sum(first: Any, second: Any) -> Any:
    """Return the sum of two objects. This Python function supports ``__torch_function__``."""
    if has_torch_function((first, second)):
        return handle_torch_function(overridable_sum, (first, second), first, second)
    return first + second


@behaviour("subclass", capabilities=("autograd",), must_detect=("value", "error"))
def overrides_are_asked_in_order(lab: Lab) -> None:
    """Functions of torch, and Python functions that support ``__torch_function__``, call the overrides of
    their arguments from left to right, and of subclasses before their bases. The first result that is not
    NotImplemented is returned, and exceptions propagate. If all overrides return NotImplemented, a TypeError
    is raised.
    """
    x: Any = lab.integers(3)
    base: Any = ReturnsFunctionName()
    later: Any = DerivedReturnsFunctionName()
    declines: Any = DeclinesFunctions()
    fails: Any = RaisesInTorchFunction()
    lab.same("without overrides", overridable_sum(x, x))
    for name, function in (("add", torch.add), ("mul", torch.mul), ("python", overridable_sum)):
        lab.same(f"{name}: one", [function(base, x), function(x, base)])
        lab.same(f"{name}: a subclass", [function(base, later), function(later, base)])
        lab.same(
            f"{name}: an override next to an override that declines",
            [function(declines, base), function(base, declines)],
        )
        lab.raises(
            f"{name}: all decline",
            lambda f=function: f(declines, x),  # type: ignore[misc]
            TypeError,
            type_is_documented=True,
        )
        lab.raises(f"{name}: an error", lambda f=function: f(x, fails), LookupError)  # type: ignore[misc]
    lab.same("one argument", [torch.mean(base), functional.relu(base), torch.autograd.grad(base, base)])
    lab.same("a parameter beside", torch.add(torch.nn.Parameter(lab.integers(2, 2)), base))
    lab.same("linear", [functional.linear(x, base, x), functional.linear(x, x, base)])
    lab.silent("nothing is warned of", lambda: [functional.dropout(base), torch.abs(base)])

    def first_argument(first: Any) -> Any:
        return (first,)

    lab.same("by decoration", wrap_torch_function(first_argument)(lambda first: first)(base))

    class ReflectedPowerSubclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return -1 if function is torch.Tensor.__rpow__ else NotImplemented

    class DecliningSubclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    with lab.parity("No page says that an override of the reflected power is called"):
        lab.same(
            "the power from the right",
            x.as_subclass(DecliningSubclass) ** x.as_subclass(ReflectedPowerSubclass),
        )
    resolved = torch.overrides.resolve_name(torch.Tensor.add)
    lab.same("a name", resolved)


@behaviour(
    "subclass",
    must_detect=("value",),
    basis="parity",
    ground="No page says that overrides inside lists and indices are found",
)
def overrides_in_lists_and_indices(lab: Lab) -> None:
    """An object with ``__torch_function__`` can be an element of a list of numbers or tensors, at any
    position. Its override is called once. Such an object can also be an index or an assigned value.
    """
    x: Any = lab.integers(2, 3)
    answering: Any = ReturnsFunctionName()
    declines: Any = DeclinesFunctions()
    for position in range(4):
        widths: list[Any] = [1, 1, 0, 0]
        widths[position] = answering
        lab.same(f"pad, {position}", functional.pad(x, widths))
    lab.same("a size", functional.layer_norm(x, [2, answering]))
    lab.same("tensors", torch.stack([answering, answering]))
    DeclinesFunctions.requests = 0
    lab.same("after one that declines", functional.pad(x, [1, declines, answering, 0]))
    lab.same("which was asked once", DeclinesFunctions.requests)
    lab.same("an empty list", lab.integers(1).view([]))
    lab.same("as an index", [x[answering], x[0, answering], x[(0, (answering, answering))]])
    called_functions: list[str] = []

    class FunctionRecordingIndex:
        def __index__(self) -> int:
            return 0

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called_functions.append(function.__name__)

    before = x.clone()
    x[FunctionRecordingIndex()] = 1
    x[0, FunctionRecordingIndex()] = 1
    x[0] = FunctionRecordingIndex()
    lab.same("items that are set", called_functions)
    lab.same("the tensor after assignments that an override intercepted", x + 0)
    lab.holds("the intercepted assignments write nothing", torch.equal(x, before))
    lab.same("a dtype", x.view(answering))

    class FunctionRecordingSubclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            called_functions.append(function.__name__)
            return -1

    called_functions.clear()
    index: Any = lab.integers(1, dtype=torch.int64).as_subclass(FunctionRecordingSubclass)
    lab.same("a subclass as an index", [x[index], x[5, index]])
    x[index] = 1
    x[5, index] = 1
    lab.same("assignments with a subclass as index", [called_functions, x + 0])


@behaviour("subclass", must_detect=("value", "error"))
def subclasses_keep_their_class(lab: Lab) -> None:
    """Results, items, iterated elements, new tensors, pickles and fields of named tuples have the class of a
    subclass without overrides. The result of two subclasses has the more derived class. Combining unrelated
    subclasses raises an error.
    """
    x = lab.integers(3)
    kept_class, derived_class, unrelated_class = (
        x.as_subclass(PlainSubclass),
        x.as_subclass(DerivedSubclass),
        x.as_subclass(UnrelatedSubclass),
    )
    results = {
        "kept + plain": kept_class + x,
        "plain + kept": x + kept_class,
        "kept + kept": kept_class + kept_class,
        "an item": kept_class[0],
        "lower + kept": derived_class + kept_class,
        "kept + lower": kept_class + derived_class,
        "plain + lower": x + derived_class,
        "new_ones": kept_class.new_ones(2),
    }
    for name, result in results.items():
        lab.same(name, [type(result).__name__, result.as_subclass(torch.Tensor)])
    lab.same("iterated", [type(item).__name__ for item in kept_class])
    largest = torch.max(kept_class, dim=0)
    lab.holds(
        "a named tuple has the class that it has for tensors", type(largest) is type(torch.max(x, dim=0))
    )
    lab.same("its values", [type(largest.values).__name__, largest.values.as_subclass(torch.Tensor)])
    lab.raises("unrelated ones", lambda: kept_class + unrelated_class, TypeError, type_is_documented=True)
    lab.raises(
        "unrelated subclasses in the other order",
        lambda: unrelated_class + kept_class,
        TypeError,
        type_is_documented=True,
    )
    kept_class.label = "e"  # type: ignore[attr-defined]
    loaded = pickle.loads(pickle.dumps(kept_class))
    with lab.consistent("The loaded tensor must agree with the original in class, attribute and values"):
        lab.same("a pickle", [type(loaded).__name__, loaded.label, loaded.as_subclass(torch.Tensor)])

    class ArgumentDoublingSubclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            doubled_arguments = [
                a.as_subclass(torch.Tensor) * 2 if isinstance(a, ArgumentDoublingSubclass) else a
                for a in args
            ]
            return function(*doubled_arguments, **(kwargs or {}))

    doubled, second_doubled = x.as_subclass(ArgumentDoublingSubclass), x.as_subclass(ArgumentDoublingSubclass)
    lab.same("result of an override that changes arguments", doubled + 1)
    lab.same(
        "a subclass is hashed by its identity",
        len({id(doubled), id(second_doubled)}) == len({doubled, second_doubled}),
    )
    with torch._C.DisableTorchFunctionSubclass():
        with lab.parity("The attribute or function is private and undocumented"):
            lab.same("turned off", type(kept_class + 1).__name__)
        guard = torch._C._EnableTorchFunction()
        with lab.parity("The attribute or function is private and undocumented"):
            lab.same("turned on inside", type(kept_class + 1).__name__)
        del guard
    view = PlainSubclass(x)
    with lab.parity("No page says that a subclass made of a tensor shares its memory"):
        lab.shares("a tensor and a subclass made from it", view, x)
    with lab.parity("The attribute or function is private and undocumented"):
        lab.holds("the subclass is a view of the tensor", view._is_view() and view._base is x)
    with (
        torch._C.DisableTorchFunction(),
        torch.overrides._enable_torch_function(),
        lab.parity("The attribute or function is private and undocumented"),
    ):
        lab.same("turned on again", type(kept_class + 1).__name__)


@behaviour("subclass", must_detect=("value", "error"))
def function_modes_nest(lab: Lab) -> None:
    """A ``TorchFunctionMode`` intercepts functions, methods, factories, indexing and Python functions with
    overrides, before subclasses do. A mode can be nested, entered twice, decline a call, and enter itself
    inside its own method.
    """
    x = lab.integers(3)
    calls: list[str] = []

    class FunctionRecordingMode(TorchFunctionMode):
        def __init__(self, label: str) -> None:
            super().__init__()
            self.word = label

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(f"{self.word} {getattr(function, '__name__', '')}")
            return function(*args, **(kwargs or {}))

    class ConstantReturningMode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return -1

    class DecliningMode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    class FailingMode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise LookupError

    split: Any = torch.split
    with ConstantReturningMode():
        results = [
            torch.randn(3),
            torch.add(x, x),
            split(None, [2]),
            torch.tensor([1]),
            torch.as_tensor([1]),
            torch.sparse_coo_tensor(1, 1, 1),  # type: ignore[arg-type]
            torch.sparse_csr_tensor(1, 1, 1),  # type: ignore[arg-type]
            overridable_sum(x, x),
            torch.neg(x.as_subclass(PlainSubclass)),
        ]
    lab.same("a constant", results)
    with FunctionRecordingMode("outer"), FunctionRecordingMode("inner"):
        result = torch.neg(x)
    lab.same("nested", [list(calls), result])
    calls.clear()
    with FunctionRecordingMode("twice") as mode, mode:
        torch.neg(x)
    lab.same("entered twice", list(calls))
    calls.clear()
    with FunctionRecordingMode("outer"), FunctionRecordingMode("inner"):
        lab.same("a function of Python", overridable_sum(x, x))
    lab.same("is seen by both", [entry for entry in calls if "overridable_sum" in entry])
    calls.clear()
    with FunctionRecordingMode("one"):
        item = x[lab.put(0)]
        torch.distributions.Bernoulli(0.3)
    lab.same("an item", item)
    lab.holds("a mode intercepts indexing", "one __getitem__" in calls)
    with lab.parity("No page says which calls a distribution makes"):
        lab.holds("a mode intercepts calls of a distribution", len(calls) > 1)

    for moment, mode_object in (("made before", FailingMode()), ("made there", None)):

        def create_under_failing_mode(mode_object: Any = mode_object) -> None:
            with mode_object or FailingMode():
                torch.empty([], device=lab.device)

        lab.raises(f"an error, {moment}", create_under_failing_mode, LookupError)
    with DecliningMode():
        lab.same("a mode that declines, before a class with an override", torch.mean(ReturnsFunctionName()))  # type: ignore[call-overload]

    def negate_under_declining_mode() -> Any:
        with DecliningMode():
            return torch.neg(DeclinesFunctions())  # type: ignore[arg-type]

    lab.raises("both decline", negate_under_declining_mode, TypeError, type_is_documented=True)

    class SelfEnteringMode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(function.__name__)
            if function is torch.sub:
                with self:
                    return torch.add(args[0], args[1], alpha=-1)
            return function(*args, **(kwargs or {}))

    calls.clear()
    with SelfEnteringMode():
        lab.same("one that enters itself", torch.sub(x, x + 1))
    lab.same("sees both", [entry for entry in calls if entry in ("sub", "add")])

    class ModeWithClassmethod(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    def add_under_classmethod_mode() -> Any:
        with ModeWithClassmethod():
            return x + x

    with lab.parity("No page says that a classmethod is refused"):
        lab.raises("a classmethod", add_under_classmethod_mode, match="classmethod")
    calls.clear()
    with FunctionRecordingMode("on"):
        with torch._C.DisableTorchFunctionSubclass():
            result = torch.neg(x.as_subclass(PlainSubclass))
        inside = list(calls)
        with torch._C.DisableTorchFunction():
            torch.neg(x)
    with lab.parity("The attribute or function is private and undocumented"):
        lab.same("without subclasses", [inside, type(result).__name__])
        lab.same("without any", calls == inside)
    counts = [0]

    class ModeDecliningSubclasses(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counts[0] += 1
            if any(kind is not torch.Tensor for kind in types):
                return NotImplemented
            return function(*args, **(kwargs or {}))

    with ModeDecliningSubclasses():
        result = torch.neg(x.as_subclass(PlainSubclass))
    with lab.parity("No page fixes the number of calls"):
        lab.same(
            "mode calls and result class for a subclass without overrides", [counts, type(result).__name__]
        )
    with FunctionRecordingMode("a"), FunctionRecordingMode("b") as reused_mode:
        pass
    with reused_mode:
        lab.same("entered again", torch.neg(x))


class TensorHolder:
    """A class that wraps a tensor and is not a tensor. It forwards every function to the tensor and wraps the
    results.
    """

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if callable(attribute) and not isinstance(attribute, torch.device):
            return lambda *args, **kwargs: wrap_in_tensor_holders(
                attribute(*unwrap_tensor_holders(args), **kwargs)
            )
        return wrap_in_tensor_holders(attribute)

    def __getitem__(self, key: Any) -> Any:
        return wrap_in_tensor_holders(self.inner[unwrap_tensor_holders(key)])

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keyword_arguments = {name: unwrap_tensor_holders(value) for name, value in (kwargs or {}).items()}
        return wrap_in_tensor_holders(function(*unwrap_tensor_holders(args), **keyword_arguments))


def unwrap_tensor_holders(value: Any) -> Any:
    """Return a tree in which each :class:`TensorHolder` is replaced by its tensor."""
    if isinstance(value, (list, tuple)):
        return type(value)(unwrap_tensor_holders(entry) for entry in value)
    return value.inner if isinstance(value, TensorHolder) else value


def wrap_in_tensor_holders(value: Any) -> Any:
    """Return a tree in which each tensor is wrapped in :class:`TensorHolder`."""
    if type(value) in (list, tuple):
        return type(value)(wrap_in_tensor_holders(entry) for entry in value)
    return TensorHolder(value) if isinstance(value, torch.Tensor) else value


@behaviour("subclass", must_detect=("value",), ground="The note promises overrides for functions of torch")
def holders_of_tensors_pass(lab: Lab) -> None:
    """``einsum``, ``broadcast_all`` of ``torch.distributions`` and recurrent modules accept objects that wrap
    tensors and define ``__torch_function__``. The results equal the results for tensors.
    """
    from torch.distributions.utils import broadcast_all

    a, b, c = lab.integers(2, 3), lab.integers(5, 3, 4), lab.integers(2, 4)
    holders: list[Any] = [TensorHolder(a), TensorHolder(b), TensorHolder(c)]
    lab.same("einsum", torch.einsum("ik,jkl,il->ij", *holders).inner)
    lab.same("einsum of a list", torch.einsum("ik,jkl,il->ij", holders).inner)
    x, y = lab.floats(3), lab.floats(1)
    for kind, second_argument in (("held", TensorHolder(y)), ("plain", y)):
        first, second = broadcast_all(TensorHolder(x), second_argument)  # type: ignore[arg-type]
        with lab.parity("The function broadcast_all is undocumented"):
            lab.same(f"broadcast, {kind}", [first.inner, second.inner])
    model = lab.to(torch.nn.RNN(4, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.25)
        with lab.parity("No page says that modules accept objects that are not tensors"):
            out, last = model(TensorHolder(lab.integers(5, 1, 4)))
    lab.close(
        "a recurrent module",
        [unwrap_tensor_holders(out), unwrap_tensor_holders(last)],
        roundings=64,
        matrix=True,
    )
