"""Observations of a behaviour, kept as they were at that moment, and their comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.behaviours.statement_positions import Place
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.compare import compare_values, fact, metadata, on_host
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, TF32_UNIT, Tolerance, unit_of
from conformance.framework.trees import tree_map
from conformance.model.verdicts import Kind
from conformance.target.target import Target


@dataclasses.dataclass(frozen=True)
class TensorShown:
    """A tensor as it was: values on the host, and its metadata.

    ``parts`` hold the values: one strided tensor, or those that a nested, quantized or sparse one is made of.
    """

    parts: tuple[torch.Tensor, ...]
    words: dict[str, Any]
    device: torch.device


@dataclasses.dataclass(frozen=True)
class Closeness:
    """An allowed distance: ``roundings`` units of the coarsest dtype, at the largest element.

    ``matrix`` says that products are summed, which the precision class ``tf32`` does with fewer bits;
    ``dtype`` names a coarser dtype than that of the result, if one took part.
    """

    roundings: float
    matrix: bool = False
    dtype: torch.dtype | None = None

    def tolerance(self, expected: torch.Tensor, precision: str) -> Tolerance:
        """Return the bound for all elements of ``expected``; exact for integers and booleans."""
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
    """One named thing that a behaviour has shown; ``closeness`` None asks for equal values.

    ``host`` says that tensors are due on the CPU; ``strides`` compares their layout in memory as well.
    """

    name: str
    value: Any
    closeness: Closeness | None = None
    host: bool = False
    strides: bool = False
    #: The place that showed it on the device; None if its target declares every dtype.
    place: Place | None = None


def show(value: Any, *, strides: bool = False) -> Any:
    """Return a copy of a tree that later changes do not reach; tensors become :class:`TensorShown`."""
    return tree_map(lambda leaf: _shown(leaf, strides), value)


def _shown(leaf: Any, strides: bool) -> Any:
    if isinstance(leaf, numpy.ndarray):
        return _shown(torch.from_numpy(leaf.copy()), strides)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    words: dict[str, Any] = {"dtype": leaf.dtype, "layout": leaf.layout}
    if leaf.is_nested:
        parts = tuple(on_host(part).clone() for part in leaf.detach().unbind())
        words["shapes"] = [list(part.shape) for part in parts]
        return TensorShown(parts, words, leaf.device)
    words = metadata(leaf, stride=strides)
    if leaf.is_quantized:
        host = leaf.detach().cpu()
        words["qscheme"] = host.qscheme()
        return TensorShown((host.int_repr().clone(), host.dequantize().clone()), words, leaf.device)
    if strides and leaf.layout is torch.strided:
        words["offset"] = leaf.storage_offset()
    if leaf.layout is torch.sparse_coo:
        words["sparse dimensions"] = (leaf.sparse_dim(), leaf.dense_dim())
    return TensorShown((on_host(leaf).clone(),), words, leaf.device)


def dtypes_shown(value: Any) -> list[torch.dtype]:
    """Return the dtypes of the tensors in a shown tree."""
    return [leaf.words["dtype"] for leaf in trees.leaves(value) if isinstance(leaf, TensorShown)]


def compare(
    recorder: Recorder,
    actual: Observation,
    expected: Observation,
    device: torch.device,
    target: Target,
    unclaimed: Callable[[Place | None], bool],
) -> bool:
    """Compare what the device showed with what the CPU showed under the same name; return whether
    they agree.

    Tensors of dtypes that the target does not declare are left out, and so are numbers and words that differ
    at a place of which ``unclaimed`` says that it needs such a dtype.
    """
    comparison = _Comparison(recorder, expected, device, target, lambda: unclaimed(actual.place))
    return comparison.trees(actual.value, expected.value, expected.name)


class _Comparison:
    def __init__(
        self,
        recorder: Recorder,
        expected: Observation,
        device: torch.device,
        target: Target,
        unclaimed: Callable[[], bool],
    ) -> None:
        self.recorder = recorder
        self.expected = expected
        self.device = device
        self.target = target
        self.unclaimed = unclaimed

    def trees(self, actual: Any, expected: Any, label: str) -> bool:
        if isinstance(expected, TensorShown):
            return self.tensors(actual, expected, label)
        if isinstance(expected, (tuple, list)) and not isinstance(expected, torch.Size):
            same = isinstance(actual, (tuple, list)) and len(actual) == len(expected)
            if not self.fact(same, f"{label} is {_brief(actual)}, expected {_brief(expected)}."):
                return False
            results = [
                self.trees(actual_item, expected_item, f"{label}[{index}]")
                for index, (actual_item, expected_item) in enumerate(zip(actual, expected, strict=True))
            ]
            return all(results)
        if isinstance(expected, dict):
            same = isinstance(actual, dict) and list(actual) == list(expected)
            if not self.fact(same, f"{label} has keys {_brief(actual)}, expected {_brief(expected)}."):
                return False
            results = [self.trees(actual[key], expected[key], f"{label}[{key!r}]") for key in expected]
            return all(results)
        return self.leaf(actual, expected, label)

    def leaf(self, actual: Any, expected: Any, label: str) -> bool:
        if undeclared_dtypes.declares_all(self.target):
            return self.number_or_word(self.recorder, actual, expected, label)
        trial = self.recorder.trial()
        if not self.number_or_word(trial, actual, expected, label) and self.unclaimed():
            return True
        self.recorder.absorb(trial)
        return not trial.failed

    def number_or_word(self, recorder: Recorder, actual: Any, expected: Any, label: str) -> bool:
        number = isinstance(expected, (float, complex))
        if number and isinstance(actual, type(expected)):
            closeness = self.expected.closeness
            want = torch.tensor(
                expected, dtype=torch.complex128 if isinstance(expected, complex) else torch.float64
            )
            tolerance = EXACT
            if closeness is not None:
                dtype = closeness.dtype or torch.float32
                tolerance = Tolerance(closeness.roundings * unit_of(dtype), float(torch.finfo(dtype).tiny))
            got = torch.tensor(actual, dtype=want.dtype)
            return compare_values(recorder, got, want, tolerance=tolerance, label=label)
        text = f"{label} is {_brief(actual)}, expected {_brief(expected)}."
        return fact(recorder, type(actual) is type(expected) and actual == expected, Kind.VALUE, text)

    def tensors(self, actual: Any, expected: TensorShown, label: str) -> bool:
        text = f"{label} is {_brief(actual)}, expected a tensor."
        if not isinstance(actual, TensorShown):
            return self.fact(False, text)
        if not self.expected.host and (
            missing := undeclared_dtypes.unclaimed(self.target, expected.words["dtype"])
        ):
            self.recorder.left_out(missing)
            return True
        good = True
        for word, value in expected.words.items():
            kind = Kind.DTYPE if word == "dtype" else Kind.METADATA
            shown = actual.words.get(word)
            good &= self.fact(shown == value, f"{label} has {word} {shown}, expected {value}.", kind)
        device_type = "cpu" if self.expected.host else self.device.type
        text = f"{label} is on device {actual.device}, expected {device_type}."
        good &= self.fact(actual.device.type == device_type, text)
        if not good or len(actual.parts) != len(expected.parts):
            return False
        for place, (got, want) in enumerate(zip(actual.parts, expected.parts, strict=True)):
            name = label if len(expected.parts) == 1 else f"part {place} of {label}"
            closeness = self.expected.closeness
            tolerance = EXACT if closeness is None else closeness.tolerance(want, self.target.precision)
            if want.numel() == 0:
                # Its metadata was compared, and that is all that it has.
                good &= self.fact(got.shape == want.shape, f"{name} has shape {list(got.shape)}")
                continue
            good &= compare_values(self.recorder, got, want, tolerance=tolerance, label=name)
        return good

    def fact(self, holds: bool, text: str, kind: Kind = Kind.METADATA) -> bool:
        return fact(self.recorder, holds, kind, text)


def _brief(value: Any) -> str:
    if isinstance(value, TensorShown):
        return f"a tensor of shape {value.words.get('shape')}"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"
