"""Fake tensors in operators of torch's database: shapes of pointwise ones, and open sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

from conformance import torch_testing_internals
from conformance.behaviours import lab as bench
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tensors
from conformance.properties.api._opinfo_calls import OpInfoCall, calls, forms


class _Shapes(TorchDispatchMode):
    """Notes the operators said to be pointwise whose results have not the shape of their broadcast inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.wrong: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        if torch.Tag.pointwise in function.tags and not bench.at_work():
            self.seen += 1
            given = [tensor.shape for tensor in tensors((args, kwargs or {}))]
            due = torch.broadcast_shapes(*given)
            if any(tensor.shape != due for tensor in tensors(found)):
                self.wrong.append(str(function))
        return found


def predicted(call: OpInfoCall, mode: Any, run: Callable[[OpInfoCall], Any]) -> Any:
    """Run a call of fake tensors like its own in their mode; tests put a wrong one in its place."""

    def fake(leaf: Any) -> Any:
        return mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    copy = call.with_tensors([fake(tensor) for tensor in call.tensors()])
    with enable_python_dispatcher(), mode:
        return run(copy)


def _plain(call: OpInfoCall) -> Any:
    return call.function(*call.arguments, **call.options)


def _in_place(call: OpInfoCall) -> Any:
    assert call.in_place is not None
    return call.in_place(call.arguments[0].clone(), *call.arguments[1:], **call.options)


def _agrees(lab: Lab, call: OpInfoCall, make: Callable[[], Any], run: Callable[[OpInfoCall], Any]) -> bool:
    """Return whether fake tensors predict the forms of what a call gives, or cannot know them.

    The CPU is asked about the calls on which the target disagrees. It may itself have no prediction; a wrong
    one of its own is reported.
    """
    torch.manual_seed(11)
    try:
        real = run(call.copied())
        if lab.on_target:
            lab.target.synchronize()
    except Exception:
        return True  # whether the device has the operator is stated by other properties
    try:
        fake = forms(predicted(call.copied(), make(), run))
    except Exception as error:
        return lab.target.is_cpu or _unknown(error) or not _predicted_on_the_host(call, make, run)
    return forms(real) == fake or (not lab.target.is_cpu and not _predicted_on_the_host(call, make, run))


def _unknown(error: Exception) -> bool:
    text = str(error)
    refused = isinstance(error, torch_testing_internals.dynamic_output_errors())
    return refused or "data-dependent" in text or "data dependent" in text or "data is not allocated" in text


def _predicted_on_the_host(
    call: OpInfoCall, make: Callable[[], Any], run: Callable[[OpInfoCall], Any]
) -> bool:
    """Return whether fake tensors predict the same call on the host; a device is held to no more."""
    host = call.with_tensors([t.detach().cpu().requires_grad_(t.requires_grad) for t in call.tensors()]).at(
        "cpu"
    )
    with bench.own_work():
        try:
            return forms(run(host.copied())) == forms(predicted(host.copied(), make(), run))
        except Exception:
            return False


def _over(
    lab: Lab,
    part: int,
    parts: int,
    name: str,
    run: Callable[[OpInfoCall], Any],
    *,
    make: Callable[[], Any],
) -> None:
    for call in _strided(lab, part, parts):
        if run is _in_place and (call.in_place is None or call.name == "resize_"):
            continue
        with torch_testing_internals.quiet():
            agrees = not lab.on_target or _agrees(lab, call, make, run)
        lab.holds(f"{call.name} {name} has the form that is predicted", agrees)


def _strided(lab: Lab, part: int, parts: int) -> Iterator[OpInfoCall]:
    for call in calls(lab, part, parts):
        if call.tensors() and all(tensor.layout is torch.strided for tensor in call.tensors()):
            yield call


def _open() -> Any:
    return FakeTensorMode(shape_env=ShapeEnv())


for _part in range(4):

    @behaviour("fake", name=f"shapes-of-pointwise-operators-{_part + 1}-of-4", sees=("shape",))
    def _pointwise(lab: Lab, part: int = _part) -> None:
        """Each operator that torch marks as pointwise and that an entry of the database runs gives results of
        the shape of its broadcast inputs.
        """
        with torch_testing_internals.quiet():
            for call in _strided(lab, part, 4):
                torch.manual_seed(11)
                with _Shapes() as shapes:
                    try:
                        _plain(call)
                    except Exception:
                        shapes.wrong.clear()  # whether the device has it is stated by other properties
                lab.holds(f"{call.name} broadcasts", not shapes.wrong)
        lab.same("a sum", (lab.integers(3, 1) + lab.integers(2)).shape)


for _part in range(4):

    @behaviour("fake", name=f"open-sizes-of-operators-{_part + 1}-of-8", sees=())
    def _open_sizes(lab: Lab, part: int = _part) -> None:
        """Shapes and dtypes that fake tensors of open sizes predict are those of the real results, for each
        eighth operator of the database.
        """
        _over(lab, 2 * part, 8, "of open sizes", _plain, make=_open)

    @behaviour("fake", name=f"open-sizes-of-operators-in-place-{_part + 1}-of-4", sees=())
    def _open_sizes_in_place(lab: Lab, part: int = _part) -> None:
        """Shapes and dtypes that fake tensors of open sizes predict are those of the real results, for each
        fourth operator of the database that writes in place.
        """
        _over(lab, part, 4, "of open sizes, in place", _in_place, make=_open)
