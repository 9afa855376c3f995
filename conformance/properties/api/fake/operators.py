"""Behaviours of the operators in torch's operator database: shapes of pointwise operators, and predictions by
fake tensors with dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

from conformance import torch_testing_internals
from conformance.behaviours import lab as lab_module
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tensors
from conformance.properties.api._opinfo_calls import OpInfoCall, describe_leaves, first_sample_calls


class _PointwiseShapeCheckingMode(TorchDispatchMode):
    """A dispatch mode that records each pointwise operator whose result does not have the broadcast shape of
    its inputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.checked_calls = 0
        self.wrong: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if torch.Tag.pointwise in function.tags and not lab_module.is_lab_working():
            self.checked_calls += 1
            shapes = [tensor.shape for tensor in tensors((args, kwargs or {}))]
            expected_shape = torch.broadcast_shapes(*shapes)
            if any(tensor.shape != expected_shape for tensor in tensors(result)):
                self.wrong.append(str(function))
        return result


def run_on_fake_tensors(call: OpInfoCall, mode: Any, run: Callable[[OpInfoCall], Any]) -> Any:
    """Return ``run(call)`` under ``mode``, with fake copies of the call's tensors. Tests replace this
    function by a faulty one.
    """

    def fake_copy(leaf: Any) -> Any:
        return mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    copy = call.with_replaced_tensors([fake_copy(tensor) for tensor in call.tensors()])
    with enable_python_dispatcher(), mode:
        return run(copy)


def _call_out_of_place(call: OpInfoCall) -> Any:
    return call.function(*call.arguments, **call.options)


def _call_in_place(call: OpInfoCall) -> Any:
    assert call.in_place is not None
    return call.in_place(call.arguments[0].clone(), *call.arguments[1:], **call.options)


def _fake_prediction_agrees(
    lab: Lab, call: OpInfoCall, make_mode: Callable[[], Any], run: Callable[[OpInfoCall], Any]
) -> bool:
    """Return whether fake tensors predict the shapes, dtypes and devices of a call's results.

    If the prediction fails on the target, the CPU is the control: return False only if the prediction for the
    same call on the CPU is correct. Return True if the call itself fails, or if the results depend on values.
    """
    torch.manual_seed(11)
    try:
        real = run(call.with_copied_tensors())
        if lab.on_target:
            lab.target.synchronize()
    except Exception:
        return True  # other properties check whether the device has the operator
    try:
        fake = describe_leaves(run_on_fake_tensors(call.with_copied_tensors(), make_mode(), run))
    except Exception as error:
        return (
            lab.target.is_cpu or _is_unpredictable(error) or not _cpu_prediction_agrees(call, make_mode, run)
        )
    return describe_leaves(real) == fake or (
        not lab.target.is_cpu and not _cpu_prediction_agrees(call, make_mode, run)
    )


def _is_unpredictable(error: Exception) -> bool:
    """Return whether an error says that the results of a call depend on values, so that they cannot be
    predicted.
    """
    text = str(error)
    refused = isinstance(error, torch_testing_internals.dynamic_output_errors())
    return refused or "data-dependent" in text or "data dependent" in text or "data is not allocated" in text


def _cpu_prediction_agrees(
    call: OpInfoCall, make_mode: Callable[[], Any], run: Callable[[OpInfoCall], Any]
) -> bool:
    """Return whether fake tensors correctly predict the results of the same call on the CPU."""
    host = call.with_replaced_tensors(
        [t.detach().cpu().requires_grad_(t.requires_grad) for t in call.tensors()]
    ).on_device("cpu")
    with lab_module.lab_work():
        try:
            return describe_leaves(run(host.with_copied_tensors())) == describe_leaves(
                run_on_fake_tensors(host.with_copied_tensors(), make_mode(), run)
            )
        except Exception:
            return False


def _check_fake_predictions(
    lab: Lab,
    shard: int,
    shard_count: int,
    name: str,
    run: Callable[[OpInfoCall], Any],
    *,
    make_mode: Callable[[], Any],
) -> None:
    """Record for each call of a shard whether the prediction by fake tensors is correct."""
    for call in _calls_with_strided_tensors(lab, shard, shard_count):
        if run is _call_in_place and (call.in_place is None or call.name == "resize_"):
            continue
        with torch_testing_internals.silence_warnings():
            agrees = not lab.on_target or _fake_prediction_agrees(lab, call, make_mode, run)
        lab.holds(f"{call.name} {name} has the predicted metadata", agrees)


def _calls_with_strided_tensors(lab: Lab, shard: int, shard_count: int) -> Iterator[OpInfoCall]:
    """Yield the calls of a shard that have tensors, all of them strided."""
    for call in first_sample_calls(lab, shard, shard_count):
        if call.tensors() and all(tensor.layout is torch.strided for tensor in call.tensors()):
            yield call


def _dynamic_shape_mode() -> Any:
    return FakeTensorMode(shape_env=ShapeEnv())


for _part in range(4):

    @behaviour(
        "fake",
        name=f"shapes-of-pointwise-operators-{_part + 1}-of-4",
        must_detect=("shape",),
        page="notes/broadcasting.html",
        ground="The note gives the broadcast shape",
    )
    def _pointwise(lab: Lab, part: int = _part) -> None:
        """Operators that torch tags as pointwise return results with the broadcast shape of their inputs.
        This is checked for a fourth of the calls of the operator database.
        """
        with torch_testing_internals.silence_warnings():
            for call in _calls_with_strided_tensors(lab, part, 4):
                torch.manual_seed(11)
                with _PointwiseShapeCheckingMode() as shapes:
                    try:
                        _call_out_of_place(call)
                    except Exception:
                        shapes.wrong.clear()  # other properties check whether the device has the operator
                lab.holds(f"{call.name} broadcasts", not shapes.wrong)
        lab.same("a sum", (lab.integers(3, 1) + lab.integers(2)).shape)


for _part in range(4):

    @behaviour("fake", name=f"open-sizes-of-operators-{_part + 1}-of-8", must_detect=())
    def _open_sizes(lab: Lab, part: int = _part) -> None:
        """Fake tensors with dynamic shapes predict the shapes and dtypes of the real results, for an eighth
        of the operators in torch's operator database.
        """
        _check_fake_predictions(
            lab, 2 * part, 8, "of open sizes", _call_out_of_place, make_mode=_dynamic_shape_mode
        )

    @behaviour("fake", name=f"open-sizes-of-operators-in-place-{_part + 1}-of-4", must_detect=())
    def _open_sizes_in_place(lab: Lab, part: int = _part) -> None:
        """Fake tensors with dynamic shapes predict the shapes and dtypes of the real results, for a fourth of
        the in-place operators in torch's operator database.
        """
        _check_fake_predictions(
            lab, part, 4, "of open sizes, in place", _call_in_place, make_mode=_dynamic_shape_mode
        )
