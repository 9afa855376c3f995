"""Overrides by __torch_function__: order, lists, indices, factories, and modes one in another."""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function, wrap_torch_function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class Answers:
    """Not a tensor; answers every function with its name and the class that was asked."""

    def __init__(self, value: int = 1) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return [cls.__name__, function.__name__]


class Later(Answers):
    """A subclass, which is asked before its base."""


class Declines:
    """Leaves every function to others, and counts the requests."""

    requests = 0

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Declines.requests += 1
        return NotImplemented


class Fails:
    """Raises in every function."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise LookupError(function.__name__)


class Kept(torch.Tensor):
    """A subclass of tensors that changes nothing."""


class KeptToo(Kept):
    """A subclass of it."""


class Other(torch.Tensor):
    """An unrelated one."""


def total(first: Any, second: Any) -> Any:
    """A function of Python that may be overridden."""
    if has_torch_function((first, second)):
        return handle_torch_function(total, (first, second), first, second)
    return first + second


@behaviour("subclass", sees=("value", "error"))
def overrides_are_asked_in_order(lab: Lab) -> None:
    """Functions of torch and of Python ask arguments from left to right, subclasses before their bases; the
    first answer counts, errors pass, and if all decline it is a TypeError.
    """
    x: Any = lab.integers(3)
    base: Any = Answers()
    later: Any = Later()
    declines: Any = Declines()
    fails: Any = Fails()
    lab.same("without overrides", total(x, x))
    for name, function in (("add", torch.add), ("mul", torch.mul), ("python", total)):
        lab.same(f"{name}: one", [function(base, x), function(x, base)])
        lab.same(f"{name}: a subclass", [function(base, later), function(later, base)])
        lab.same(f"{name}: after one that declines", [function(declines, base), function(base, declines)])
        lab.raises(f"{name}: all decline", lambda f=function: f(declines, x), TypeError)  # type: ignore[misc]
        lab.raises(f"{name}: an error", lambda f=function: f(x, fails), LookupError)  # type: ignore[misc]
    lab.same("one argument", [torch.mean(base), functional.relu(base), torch.autograd.grad(base, base)])
    lab.same("a parameter beside", torch.add(torch.nn.Parameter(lab.integers(2, 2)), base))
    lab.same("linear", [functional.linear(x, base, x), functional.linear(x, x, base)])
    lab.silent("nothing is warned of", lambda: [functional.dropout(base), torch.abs(base)])

    def relevant(first: Any) -> Any:
        return (first,)

    lab.same("by decoration", wrap_torch_function(relevant)(lambda first: first)(base))

    class Powers(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return -1 if function is torch.Tensor.__rpow__ else NotImplemented

    class Nothing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    lab.same("the power from the right", x.as_subclass(Nothing) ** x.as_subclass(Powers))
    resolved = torch.overrides.resolve_name(torch.Tensor.add)
    lab.same("a name", resolved)


@behaviour("subclass", sees=("value",))
def overrides_in_lists_and_indices(lab: Lab) -> None:
    """Objects with overrides are asked once in lists of numbers and tensors, and as indices or values of
    items, wherever they are; without one a list is a list.
    """
    x: Any = lab.integers(2, 3)
    thing: Any = Answers()
    declines: Any = Declines()
    for place in range(4):
        widths: list[Any] = [1, 1, 0, 0]
        widths[place] = thing
        lab.same(f"pad, {place}", functional.pad(x, widths))
    lab.same("a size", functional.layer_norm(x, [2, thing]))
    lab.same("tensors", torch.stack([thing, thing]))
    Declines.requests = 0
    lab.same("after one that declines", functional.pad(x, [1, declines, thing, 0]))
    lab.same("which was asked once", Declines.requests)
    lab.same("an empty list", lab.integers(1).view([]))
    lab.same("as an index", [x[thing], x[0, thing], x[(0, (thing, thing))]])
    seen: list[str] = []

    class Notes:
        def __index__(self) -> int:
            return 0

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)

    before = x.clone()
    x[Notes()] = 1
    x[0, Notes()] = 1
    x[0] = Notes()
    lab.same("items that are set", seen)
    lab.same("the tensor is as before", x + 0)
    lab.holds("none was set", torch.equal(x, before))
    lab.same("a dtype", x.view(thing))

    class Index(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return -1

    seen.clear()
    index: Any = lab.integers(1, dtype=torch.int64).as_subclass(Index)
    lab.same("a subclass as an index", [x[index], x[5, index]])
    x[index] = 1
    x[5, index] = 1
    lab.same("and in items that are set", [seen, x + 0])


@behaviour("subclass", sees=("value", "error"))
def subclasses_keep_their_class(lab: Lab) -> None:
    """A subclass that changes nothing is the class of results, items, iterators, factories, pickles and named
    tuples; the lower one of two counts, and unrelated ones do not mix.
    """
    x = lab.integers(3)
    kept, lower, other = x.as_subclass(Kept), x.as_subclass(KeptToo), x.as_subclass(Other)
    results = {
        "kept + plain": kept + x,
        "plain + kept": x + kept,
        "kept + kept": kept + kept,
        "an item": kept[0],
        "lower + kept": lower + kept,
        "kept + lower": kept + lower,
        "plain + lower": x + lower,
        "new_ones": kept.new_ones(2),
    }
    for name, result in results.items():
        lab.same(name, [type(result).__name__, result.as_subclass(torch.Tensor)])
    lab.same("iterated", [type(item).__name__ for item in kept])
    largest = torch.max(kept, dim=0)
    lab.holds("a named tuple is of its own class", type(largest) is type(torch.max(x, dim=0)))
    lab.same("its values", [type(largest.values).__name__, largest.values.as_subclass(torch.Tensor)])
    lab.raises("unrelated ones", lambda: kept + other, TypeError)
    lab.raises("the other way", lambda: other + kept, TypeError)
    kept.label = "e"  # type: ignore[attr-defined]
    loaded = pickle.loads(pickle.dumps(kept))
    lab.same("a pickle", [type(loaded).__name__, loaded.label, loaded.as_subclass(torch.Tensor)])

    class Doubled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            plain = [a.as_subclass(torch.Tensor) * 2 if isinstance(a, Doubled) else a for a in args]
            return function(*plain, **(kwargs or {}))

    one, two = x.as_subclass(Doubled), x.as_subclass(Doubled)
    lab.same("an override with other values", one + 1)
    lab.same("hashes are those of objects", len({id(one), id(two)}) == len({one, two}))
    with torch._C.DisableTorchFunctionSubclass():
        lab.same("turned off", type(kept + 1).__name__)
        guard = torch._C._EnableTorchFunction()
        lab.same("turned on inside", type(kept + 1).__name__)
        del guard
    view = Kept(x)
    lab.shares("a tensor and one made of it", view, x)
    lab.holds("it is a view of it", view._is_view() and view._base is x)
    with torch._C.DisableTorchFunction(), torch.overrides._enable_torch_function():
        lab.same("turned on again", type(kept + 1).__name__)


@behaviour("subclass", sees=("value", "error"))
def function_modes_nest(lab: Lab) -> None:
    """A mode sees functions, methods, factories, indices and functions of Python, before subclasses; modes
    nest, may be entered twice, may decline, and may enter themselves.
    """
    x = lab.integers(3)
    seen: list[str] = []

    class Names(TorchFunctionMode):
        def __init__(self, word: str) -> None:
            super().__init__()
            self.word = word

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(f"{self.word} {getattr(function, '__name__', '')}")
            return function(*args, **(kwargs or {}))

    class Constant(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return -1

    class Refuses(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    class Breaks(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise LookupError

    split: Any = torch.split
    with Constant():
        shown = [
            torch.randn(3),
            torch.add(x, x),
            split(None, [2]),
            torch.tensor([1]),
            torch.as_tensor([1]),
            torch.sparse_coo_tensor(1, 1, 1),  # type: ignore[arg-type]
            torch.sparse_csr_tensor(1, 1, 1),  # type: ignore[arg-type]
            total(x, x),
            torch.neg(x.as_subclass(Kept)),
        ]
    lab.same("a constant", shown)
    with Names("outer"), Names("inner"):
        result = torch.neg(x)
    lab.same("nested", [list(seen), result])
    seen.clear()
    with Names("twice") as mode, mode:
        torch.neg(x)
    lab.same("entered twice", list(seen))
    seen.clear()
    with Names("outer"), Names("inner"):
        lab.same("a function of Python", total(x, x))
    lab.same("is seen by both", [entry for entry in seen if "total" in entry])
    seen.clear()
    with Names("one"):
        item = x[lab.put(0)]
        torch.distributions.Bernoulli(0.3)
    lab.same("an item", item)
    lab.holds("items are seen", "one __getitem__" in seen)
    lab.holds("a distribution is seen", len(seen) > 1)

    for word, made in (("made before", Breaks()), ("made there", None)):

        def run(made: Any = made) -> None:
            with made or Breaks():
                torch.empty([], device=lab.device)

        lab.raises(f"an error, {word}", run, LookupError)
    with Refuses():
        lab.same("one that declines, before a class", torch.mean(Answers()))  # type: ignore[call-overload]

    def declined() -> Any:
        with Refuses():
            return torch.neg(Declines())  # type: ignore[arg-type]

    lab.raises("both decline", declined, TypeError)

    class Subtracts(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            if function is torch.sub:
                with self:
                    return torch.add(args[0], args[1], alpha=-1)
            return function(*args, **(kwargs or {}))

    seen.clear()
    with Subtracts():
        lab.same("one that enters itself", torch.sub(x, x + 1))
    lab.same("sees both", [entry for entry in seen if entry in ("sub", "add")])

    class ByClass(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    def by_class() -> Any:
        with ByClass():
            return x + x

    lab.raises("a classmethod", by_class, match="classmethod")
    seen.clear()
    with Names("on"):
        with torch._C.DisableTorchFunctionSubclass():
            result = torch.neg(x.as_subclass(Kept))
        inside = list(seen)
        with torch._C.DisableTorchFunction():
            torch.neg(x)
    lab.same("without subclasses", [inside, type(result).__name__])
    lab.same("without any", seen == inside)
    counts = [0]

    class Plain(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counts[0] += 1
            if any(kind is not torch.Tensor for kind in types):
                return NotImplemented
            return function(*args, **(kwargs or {}))

    with Plain():
        result = torch.neg(x.as_subclass(Kept))
    lab.same("one that declines a class that changes nothing", [counts, type(result).__name__])
    with Names("a"), Names("b") as again:
        pass
    with again:
        lab.same("entered again", torch.neg(x))


class Held:
    """Holds a tensor, passes every function on to it, and holds the results."""

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if callable(found) and not isinstance(found, torch.device):
            return lambda *args, **kwargs: hold(found(*take(args), **kwargs))
        return hold(found)

    def __getitem__(self, key: Any) -> Any:
        return hold(self.inner[take(key)])

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        words = {word: take(value) for word, value in (kwargs or {}).items()}
        return hold(function(*take(args), **words))


def take(value: Any) -> Any:
    """Return what a tree holds."""
    if isinstance(value, (list, tuple)):
        return type(value)(take(entry) for entry in value)
    return value.inner if isinstance(value, Held) else value


def hold(value: Any) -> Any:
    """Hold the tensors of a tree."""
    if type(value) in (list, tuple):
        return type(value)(hold(entry) for entry in value)
    return Held(value) if isinstance(value, torch.Tensor) else value


@behaviour("subclass", sees=("value",))
def holders_of_tensors_pass(lab: Lab) -> None:
    """Objects that hold tensors pass through einsum, broadcasting of distributions, and recurrent modules,
    and give what the tensors give.
    """
    from torch.distributions.utils import broadcast_all

    a, b, c = lab.integers(2, 3), lab.integers(5, 3, 4), lab.integers(2, 4)
    held: list[Any] = [Held(a), Held(b), Held(c)]
    lab.same("einsum", torch.einsum("ik,jkl,il->ij", *held).inner)
    lab.same("einsum of a list", torch.einsum("ik,jkl,il->ij", held).inner)
    x, y = lab.floats(3), lab.floats(1)
    for word, other in (("held", Held(y)), ("plain", y)):
        first, second = broadcast_all(Held(x), other)  # type: ignore[arg-type]
        lab.same(f"broadcast, {word}", [first.inner, second.inner])
    model = lab.to(torch.nn.RNN(4, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.25)
        out, last = model(Held(lab.integers(5, 1, 4)))
    lab.close("a recurrent module", [take(out), take(last)], roundings=64, matrix=True)
