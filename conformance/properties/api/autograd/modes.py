"""Behaviours of the grad modes: ``no_grad``, ``enable_grad``, ``set_grad_enabled`` and ``inference_mode``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("autograd", level="training", must_detect=("value",), page="generated/torch.no_grad.html")
def modes_without_gradients(lab: Lab) -> None:
    """``no_grad``, ``enable_grad`` and ``set_grad_enabled`` can be nested, and ``is_grad_enabled`` reports
    the current mode. On exit the previous mode is restored, also after exceptions.
    """
    x = lab.integers(3, requires_grad=True)
    states = []
    with torch.no_grad():
        y = x * 2
        states += [torch.is_grad_enabled(), y.requires_grad, y.is_leaf]
        with torch.enable_grad():
            z = x * 3
            states += [torch.is_grad_enabled(), z.requires_grad]
            with torch.set_grad_enabled(False):
                states.append((x * 1).requires_grad)
        states.append(torch.is_grad_enabled())
    try:
        with torch.no_grad():
            raise KeyError
    except KeyError:
        states.append(torch.is_grad_enabled())
    torch.set_grad_enabled(False)
    try:
        states += [torch.is_grad_enabled(), (x * 2).requires_grad]
    finally:
        torch.set_grad_enabled(True)
    lab.same("flags", states)
    z.sum().backward()
    lab.expect("gradient of results made with gradients", x.grad, [3.0, 3.0, 3.0])
    with torch.no_grad():
        x.mul_(2)
        x[0] = 7
    lab.same("a leaf may be changed without gradients", x.detach())
    lab.same("a leaf keeps its flags", [x.requires_grad, x.is_leaf])
    with torch.no_grad():
        leaf = torch.zeros(2, device=lab.device, requires_grad=True)
        parameter = torch.nn.Parameter(x)
    lab.same(
        "leaves made without gradients", [leaf.requires_grad, parameter.requires_grad, parameter.is_leaf]
    )


@behaviour("autograd", must_detect=("value", "warning"), page="generated/torch.no_grad.html")
def modes_as_decorators(lab: Lab) -> None:
    """The grad modes can decorate functions, methods and classes, with and without parentheses. The mode
    applies to each call of a decorated function or method, and to the constructor of a decorated class.
    """
    x = lab.integers(3, requires_grad=True)

    @torch.no_grad()
    def double_with_parentheses(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    @torch.no_grad  # type: ignore[call-arg]
    def double_without_parentheses(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    @torch.enable_grad()
    def double_with_grad(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    @torch.set_grad_enabled(False)
    def double_in_chosen_mode(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    @torch.inference_mode  # type: ignore[arg-type]
    def double_in_inference_mode(t: torch.Tensor) -> torch.Tensor:
        return t * 2

    class ClassWithNoGradMethod:
        @torch.no_grad()
        def method(self, t: torch.Tensor) -> torch.Tensor:
            return t * 2

    calls: dict[str, Any] = {
        "with parentheses": double_with_parentheses,
        "inferred": double_in_inference_mode,
        "method": ClassWithNoGradMethod().method,
        "without": double_without_parentheses,
        "chosen": double_in_chosen_mode,
    }
    for name, call in calls.items():
        with (
            lab.parity("No page decorates by no_grad without parentheses, or by set_grad_enabled")
            if name in ("without", "chosen")
            else contextlib.nullcontext()
        ):
            for _ in range(2):
                result = call(x)
                lab.same(
                    f"{name}: requires_grad flag, and grad mode afterwards",
                    [result.requires_grad, torch.is_grad_enabled()],
                )
            lab.same(f"{name}: value", result)
    with torch.no_grad():
        lab.same("enabled within no_grad", [double_with_grad(x).requires_grad, torch.is_grad_enabled()])
    with lab.parity("No page says that a decorated function keeps its name"):
        lab.same("names are kept", double_without_parentheses.__name__)  # type: ignore[attr-defined]
    with lab.parity("No page says that decorating with set_grad_enabled leaves the current mode"):
        lab.same("decorating changes no mode", torch.is_grad_enabled())

    def decorate_class() -> Any:
        @torch.no_grad()
        class RecordsGradModeAtCreation:
            def __init__(self) -> None:
                self.mode = torch.is_grad_enabled()

        return RecordsGradModeAtCreation

    decorated = lab.warns("decorating a class", decorate_class, category=FutureWarning, match="class")
    with lab.parity("No page says what decorating a class does"):
        lab.same("the constructor's mode", decorated().mode)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.no_grad.html",
    basis="parity",
    ground="No page says in which mode a decorated generator runs",
)
def modes_of_generators(lab: Lab) -> None:
    """A decorated generator runs in the mode of its decorator each time it is resumed. The caller of the
    generator always runs in the caller's own mode.
    """
    x = lab.integers(2, requires_grad=True)
    states: list[Any] = []

    @torch.no_grad()
    def no_grad_generator() -> Generator[Any, Any, None]:
        try:
            for factor in range(3):
                states.append(("inside", torch.is_grad_enabled()))
                sent = yield x * factor
                states.append(("sent", sent))
        except KeyError:
            states.append(("caught", torch.is_grad_enabled()))
            yield x * 10
        finally:
            states.append(("end", torch.is_grad_enabled()))

    @torch.enable_grad()
    def enclosing_generator() -> Iterator[Any]:
        yield (x * 1).requires_grad
        yield from (t.requires_grad for t in no_grad_generator())
        yield (x * 1).requires_grad

    for product in no_grad_generator():
        states.append((product.requires_grad, torch.is_grad_enabled(), (x * 1).requires_grad))
    coroutine = no_grad_generator()
    first = next(coroutine)
    coroutine.send("word")
    caught = coroutine.throw(KeyError())
    lab.same("values", [first, caught])
    coroutine.close()
    with torch.no_grad():
        states.append(list(enclosing_generator()))
        states.append(torch.is_grad_enabled())
    broken = no_grad_generator()
    next(broken)
    try:
        broken.throw(ValueError("out"))
    except ValueError:
        states.append(("raised", torch.is_grad_enabled()))
    lab.same("grad modes of the generator and of its caller", states)


@behaviour("autograd", must_detect=("value",), page="generated/torch.no_grad.html")
def modes_of_threads(lab: Lab) -> None:
    """The grad mode is local to a thread. A new thread starts with gradients enabled, whatever the mode of
    the thread that starts it.
    """
    x = lab.integers(2, requires_grad=True)
    states: list[Any] = []

    def record_and_disable_grad() -> None:
        states.append((x * 2).requires_grad)
        torch.set_grad_enabled(False)
        states.append((x * 2).requires_grad)

    with torch.no_grad():
        thread = threading.Thread(target=record_and_disable_grad)
        thread.start()
        thread.join(60)
    states.append((x * 2).requires_grad)
    lab.same("needs", states)
    (x * 2).sum().backward()
    lab.expect("gradient", x.grad, [2.0, 2.0])


@behaviour(
    "autograd", level="training", must_detect=("value", "error"), page="generated/torch.inference_mode.html"
)
def inference_mode(lab: Lab) -> None:
    """Tensors created in inference mode are inference tensors. Inference tensors have no version counter and
    no graph, and cannot be saved for a backward.
    """
    outside = lab.integers(3, requires_grad=True)
    with torch.inference_mode():
        inside = outside * 2
        inferred = torch.ones(3, device=lab.device)
        flags = [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
        flags += [
            inside.is_inference(),
            inferred.is_inference(),
            inside.requires_grad,
            outside.is_inference(),
        ]
        with torch.inference_mode(False):
            flags += [
                torch.is_inference_mode_enabled(),
                (outside * 2).requires_grad,
                (outside * 2).is_inference(),
            ]
        view = outside[0:2]
        flags += [view.is_inference(), view.requires_grad]
        changed = torch.ones(3, device=lab.device)
        changed.mul_(5)
        flags += [changed.is_inference(), changed[0].is_inference()]
    flags += [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
    lab.same("flags", flags)
    lab.same("values", [inside, changed])
    lab.raises(
        "the version",
        lambda: inside._version,
        match="[Ii]nference",
        type_is_documented=True,
        text_is_documented=True,
    )
    lab.raises("need of a gradient", lambda: inferred.requires_grad_(), match="[Ii]nference")
    lab.raises("in place outside", lambda: inferred.mul_(2), match="[Ii]nference")
    lab.raises(
        "saved for backward", lambda: outside * inferred, match="[Ii]nference tensors? cannot be saved"
    )
    normal = lab.integers(3)
    lab.same("plain computation outside", (normal * inferred).is_inference())
    with lab.parity("The page excludes such tensors from all recorded computations"):
        lab.same("nothing saved", (outside + inferred).requires_grad)
    copied = inferred.clone()
    lab.same("a clone is a normal tensor", copied.is_inference())
    (outside * copied).sum().backward()
    lab.same("gradient with the clone", outside.grad)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="https://docs.pytorch.org/cppdocs/notes/inference_mode.html",
    ground="The note defines which tensors are inference tensors; writes to normal tensors remain allowed",
)
def normal_tensors_in_inference_mode(lab: Lab) -> None:
    """In inference mode, normal tensors can be changed in place and viewed. If a tensor with a graph was
    viewed in inference mode, the view must not be changed after leaving the mode.
    """
    normal, leaf = lab.integers(2, 3), lab.integers(2, 3, requires_grad=True)
    hidden = leaf * 1
    with torch.inference_mode():
        before = normal._version
        normal.add_(1)
        stepped = normal._version - before
        view = normal[0]
        view.mul_(2)
        hidden_view = hidden.view(-1)
        indirect = hidden_view[0:3]
        out = torch.empty(2, 3, device=lab.device)
        torch.add(normal, normal, out=out)
    lab.same("changed", normal)
    with lab.parity("No page says whether the version of a normal tensor increases in inference mode"):
        lab.same("version", stepped)
    lab.same(
        "flags", [normal.is_inference(), view.is_inference(), out.is_inference(), hidden_view.is_inference()]
    )
    lab.same("out", out)
    view.add_(1)
    lab.same("a tensor whose view is changed outside of the mode", normal)
    with lab.parity("No page says that a write to this view is refused"):
        lab.raises(
            "a write into a view of a tensor with a graph",
            lambda: hidden_view.mul_(2),
            match="inference mode",
        )
        lab.raises("a write into a view of this view", lambda: indirect.mul_(2), match="inference mode")
    lab.same("a product with this view", (hidden_view * 2).requires_grad)
    hidden.mul_(3)
    hidden.sum().backward()
    lab.expect("gradient", leaf.grad, [[3.0] * 3] * 2)

    @torch.inference_mode()
    def inference_flags(t: torch.Tensor) -> list[bool]:
        doubled = t * 2
        return [
            doubled.is_inference(),
            doubled.view(-1).is_inference(),
            t.is_inference(),
            doubled.requires_grad,
        ]

    lab.same("decorated", inference_flags(leaf))


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="https://docs.pytorch.org/cppdocs/notes/inference_mode.html",
)
def mixing_inference_tensors(lab: Lab) -> None:
    """Outside of inference mode, inference tensors can be read and viewed. Changing an inference tensor, or
    saving an inference tensor for a backward, is refused.
    """
    with torch.inference_mode():
        inferred = lab.integers(2, 3).clone()
    lab.holds("a clone in inference mode is an inference tensor", inferred.is_inference())
    normal, leaf = lab.integers(2, 3), lab.integers(2, 3, requires_grad=True)
    lab.same("sum with a plain tensor", normal + inferred)
    lab.same(
        "which results are inference tensors",
        [(normal + inferred).is_inference(), inferred[0].is_inference(), inferred.view(-1).is_inference()],
    )
    normal.add_(inferred)
    lab.same("into a plain tensor", normal)
    lab.raises("product in place", lambda: (leaf * 1).mul_(inferred), match="[Ii]nference")
    lab.raises("changed from outside", lambda: inferred.add_(normal), match="[Ii]nference")
    lab.raises("a view changed from outside", lambda: inferred[0].add_(1), match="[Ii]nference")
    with torch.inference_mode():
        inferred.add_(1)
        inferred[0].mul_(2)
        both = inferred + leaf
    lab.same("changed inside", inferred)
    lab.same("a sum of both kinds of tensors inside", [both.is_inference(), both.requires_grad])
    lab.raises(
        "made into a leaf", lambda: torch.nn.Parameter(inferred).sum().backward(), match="[Ii]nference"
    )
    with lab.parity("The page excludes such tensors from all recorded computations"):
        tracked = leaf * 1
        tracked.add_(inferred)
        tracked.sum().backward()
        lab.expect("gradient through a sum in place", leaf.grad, [[1.0] * 3] * 2)
