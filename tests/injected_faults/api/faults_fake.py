"""Faults for behaviours of fake tensors. The general faults change values, and fake tensors
have no values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

from conformance.behaviours import lab as bench
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map
from conformance.properties.api.fake import operators
from tests.injected_faults.api.faults import NAMED


@contextlib.contextmanager
def fake_tensors_report_meta_device(lab: Lab) -> Iterator[None]:
    """Make every fake tensor report the device ``meta``."""
    with mock.patch.object(FakeTensor, "device", property(lambda self: torch.device("meta"))):
        yield


NAMED["fake-devices"] = fake_tensors_report_meta_device
NAMED["functionalize-of-fake-tensors"] = fake_tensors_report_meta_device


@contextlib.contextmanager
def _wrong_dtype_predictions(lab: Lab) -> Iterator[None]:
    """Make fake tensors predict results with a wrong dtype."""
    predict: Any = operators.run_on_fake_tensors

    def to_wrong_dtype(leaf: Any) -> Any:
        return leaf.to(torch.complex128) if isinstance(leaf, torch.Tensor) else leaf

    def predict_wrong_dtype(call: Any, mode: Any, run: Any) -> Any:
        predicted = predict(call, mode, run)
        with mode:
            # The predictions of the CPU side stay correct.
            return predicted if bench.is_lab_working() else tree_map(to_wrong_dtype, predicted)

    with mock.patch.object(operators, "run_on_fake_tensors", predict_wrong_dtype):
        yield


for _part in range(1, 5):
    for _name in (
        f"open-sizes-of-operators-{_part}-of-8",
        f"open-sizes-of-operators-in-place-{_part}-of-4",
    ):
        NAMED[_name] = _wrong_dtype_predictions
