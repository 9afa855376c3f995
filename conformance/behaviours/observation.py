"""Take snapshots of the values that a behaviour records, and compare the snapshots of the two runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.behaviours.statement_positions import StatementPosition
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.compare import compare_values, fact, metadata, to_host_tensor
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, TF32_UNIT, Tolerance, unit_of
from conformance.framework.trees import tree_map
from conformance.model.verdicts import Basis, Kind
from conformance.target.target import Target


@dataclasses.dataclass(frozen=True)
class TensorSnapshot:
    """The values of a tensor on the host, and its metadata.

    ``parts`` holds the values: one strided tensor, or the components of a nested, quantized or sparse tensor.
    """

    parts: tuple[torch.Tensor, ...]
    metadata: dict[str, Any]
    device: torch.device


@dataclasses.dataclass(frozen=True)
class Closeness:
    """The allowed difference of values: ``roundings`` units of the coarsest dtype times the largest element.

    ``matrix`` marks results that are sums of products, for which the precision class ``tf32`` uses fewer
    bits. ``dtype`` is the coarsest dtype of the computation, if it is coarser than the dtype of the result.
    """

    roundings: float
    matrix: bool = False
    dtype: torch.dtype | None = None

    def tolerance(self, expected: torch.Tensor, precision: str) -> Tolerance:
        """Return the tolerance for all elements of ``expected``; exact for integers and booleans."""
        dtype = expected.dtype
        if not (dtype.is_floating_point or dtype.is_complex):
            return EXACT
        unit = max(unit_of(dtype), unit_of(self.dtype) if self.dtype is not None else 0.0)
        if self.matrix and precision == "tf32" and unit == unit_of(torch.float32):
            unit = TF32_UNIT
        size = expected[torch.isfinite(expected)].abs().to(torch.float64) if expected.numel() else expected
        largest = float(size.max()) if size.numel() else 0.0
        info = torch.finfo(dtype)
        return Tolerance(0.0, self.roundings * unit * largest + float(info.tiny) * float(info.eps))


@dataclasses.dataclass(frozen=True)
class Observation:
    """A value that a behaviour recorded under a name. If ``closeness`` is None, both runs must record equal
    values.

    With ``host``, tensors must be on the CPU. With ``strides``, strides and storage offsets must be equal
    too.
    """

    name: str
    value: Any
    closeness: Closeness | None = None
    host: bool = False
    strides: bool = False
    #: The position in the program that recorded the value on the device; None if the target declares every
    #: dtype.
    position: StatementPosition | None = None
    #: The basis of the statement that recorded the value; None means the basis of the behaviour.
    basis: Basis | None = None
    #: The error of a call in :meth:`conformance.behaviours.lab.Lab.value_or_error`; None if it did not raise.
    error: Exception | None = None


def snapshot(value: Any, *, strides: bool = False) -> Any:
    """Return a copy of a tree that later changes do not affect; tensors become :class:`TensorSnapshot`."""
    return tree_map(lambda leaf: _leaf_snapshot(leaf, strides), value)


def _leaf_snapshot(leaf: Any, strides: bool) -> Any:
    if isinstance(leaf, numpy.ndarray):
        return _leaf_snapshot(torch.from_numpy(leaf.copy()), strides)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    fields: dict[str, Any] = {"dtype": leaf.dtype, "layout": leaf.layout}
    if leaf.is_nested:
        parts = tuple(to_host_tensor(part).clone() for part in leaf.detach().unbind())
        fields["shapes"] = [list(part.shape) for part in parts]
        return TensorSnapshot(parts, fields, leaf.device)
    fields = metadata(leaf, stride=strides)
    if leaf.is_quantized:
        host = leaf.detach().cpu()
        fields["qscheme"] = host.qscheme()
        return TensorSnapshot((host.int_repr().clone(), host.dequantize().clone()), fields, leaf.device)
    if strides and leaf.layout is torch.strided:
        fields["offset"] = leaf.storage_offset()
    if leaf.layout is torch.sparse_coo:
        fields["sparse dimensions"] = (leaf.sparse_dim(), leaf.dense_dim())
    return TensorSnapshot((to_host_tensor(leaf).clone(),), fields, leaf.device)


def dtypes_in_snapshot(value: Any) -> list[torch.dtype]:
    """Return the dtypes of the tensors in a snapshot."""
    return [leaf.metadata["dtype"] for leaf in trees.leaves(value) if isinstance(leaf, TensorSnapshot)]


def compare_observation(
    recorder: Recorder,
    actual: Observation,
    expected: Observation,
    device: torch.device,
    target: Target,
    needs_undeclared_dtype: Callable[[StatementPosition | None], bool],
) -> bool:
    """Compare an observation of the device with the CPU's observation of the same name, and return whether
    they agree.

    Tensors of undeclared dtypes are ignored. A difference of numbers or strings is ignored if
    ``needs_undeclared_dtype`` returns True for the position of the observation, because the statement at this
    position needs an undeclared dtype.
    """
    comparison = _Comparison(
        recorder, expected, device, target, lambda: needs_undeclared_dtype(actual.position)
    )
    with recorder.with_basis(actual.basis or recorder.basis):
        return comparison.compare_trees(actual.value, expected.value, expected.name)


class _Comparison:
    def __init__(
        self,
        recorder: Recorder,
        expected: Observation,
        device: torch.device,
        target: Target,
        needs_undeclared_dtype: Callable[[], bool],
    ) -> None:
        self.recorder = recorder
        self.expected = expected
        self.device = device
        self.target = target
        self.needs_undeclared_dtype = needs_undeclared_dtype

    def compare_trees(self, actual: Any, expected: Any, label: str) -> bool:
        if isinstance(expected, TensorSnapshot):
            return self.compare_tensors(actual, expected, label)
        if isinstance(expected, (tuple, list)) and not isinstance(expected, torch.Size):
            same = isinstance(actual, (tuple, list)) and len(actual) == len(expected)
            if not self.check_fact(
                same, f"{label} is {_shortened_repr(actual)}, expected {_shortened_repr(expected)}."
            ):
                return False
            results = [
                self.compare_trees(actual_item, expected_item, f"{label}[{index}]")
                for index, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=True))
            ]
            return all(results)
        if isinstance(expected, dict):
            same = isinstance(actual, dict) and list(actual) == list(expected)
            if not self.check_fact(
                same, f"{label} has keys {_shortened_repr(actual)}, expected {_shortened_repr(expected)}."
            ):
                return False
            results = [
                self.compare_trees(actual[key], expected[key], f"{label}[{key!r}]") for key in expected
            ]
            return all(results)
        return self.compare_leaf(actual, expected, label)

    def compare_leaf(self, actual: Any, expected: Any, label: str) -> bool:
        if undeclared_dtypes.declares_all(self.target):
            return self.compare_number_or_word(self.recorder, actual, expected, label)
        trial = self.recorder.scratch()
        if not self.compare_number_or_word(trial, actual, expected, label) and self.needs_undeclared_dtype():
            return True
        self.recorder.merge(trial)
        return not trial.failed

    def compare_number_or_word(self, recorder: Recorder, actual: Any, expected: Any, label: str) -> bool:
        number = isinstance(expected, (float, complex))
        if number and isinstance(actual, type(expected)):
            closeness = self.expected.closeness
            expected_tensor = torch.tensor(
                expected, dtype=torch.complex128 if isinstance(expected, complex) else torch.float64
            )
            tolerance = EXACT
            if closeness is not None:
                dtype = closeness.dtype or torch.float32
                tolerance = Tolerance(closeness.roundings * unit_of(dtype), float(torch.finfo(dtype).tiny))
            actual_tensor = torch.tensor(actual, dtype=expected_tensor.dtype)
            return compare_values(recorder, actual_tensor, expected_tensor, tolerance=tolerance, label=label)
        text = f"{label} is {_shortened_repr(actual)}, expected {_shortened_repr(expected)}."
        return fact(recorder, type(actual) is type(expected) and actual == expected, Kind.VALUE, text)

    def compare_tensors(self, actual: Any, expected: TensorSnapshot, label: str) -> bool:
        text = f"{label} is {_shortened_repr(actual)}, expected a tensor."
        if not isinstance(actual, TensorSnapshot):
            return self.check_fact(False, text)
        if not self.expected.host and (
            missing := undeclared_dtypes.undeclared_among(self.target, expected.metadata["dtype"])
        ):
            self.recorder.omit_for_dtypes(missing)
            return True
        agree = True
        for field, value in expected.metadata.items():
            kind = Kind.DTYPE if field == "dtype" else Kind.METADATA
            actual_value = actual.metadata.get(field)
            agree &= self.check_fact(
                actual_value == value, f"{label} has {field} {actual_value}, expected {value}.", kind
            )
        device_type = "cpu" if self.expected.host else self.device.type
        text = f"{label} is on device {actual.device}, expected {device_type}."
        agree &= self.check_fact(actual.device.type == device_type, text)
        if not agree or len(actual.parts) != len(expected.parts):
            return False
        for part_index, (actual_part, expected_part) in enumerate(
            zip(actual.parts, expected.parts, strict=True)
        ):
            name = label if len(expected.parts) == 1 else f"part {part_index} of {label}"
            closeness = self.expected.closeness
            tolerance = (
                EXACT if closeness is None else closeness.tolerance(expected_part, self.target.precision)
            )
            if expected_part.numel() == 0:
                # A tensor without elements has no values to compare, only a shape.
                agree &= self.check_fact(
                    actual_part.shape == expected_part.shape, f"{name} has shape {list(actual_part.shape)}"
                )
                continue
            agree &= compare_values(
                self.recorder, actual_part, expected_part, tolerance=tolerance, label=name
            )
        return agree

    def check_fact(self, holds: bool, text: str, kind: Kind = Kind.METADATA) -> bool:
        return fact(self.recorder, holds, kind, text)


def _shortened_repr(value: Any) -> str:
    if isinstance(value, TensorSnapshot):
        return f"a tensor of shape {value.metadata.get('shape')}"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"
