"""Handmade calls with an empty tensor, for unchecked overloads.

Operators may make these calls, but no sample in torch's test database leads to such a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.samples.handmade_calls.calls import Build, HandmadeCalls, TensorMaker

aten = torch.ops.aten


def _ctc_loss_backward_without_targets_calls(*, tensors: bool) -> Build:
    """Return a function that makes ctc_loss backward calls for sequences with empty targets."""

    def argument_lists(make: TensorMaker) -> list[list[Any]]:
        steps, targets = make.values(9, 3, 6).log_softmax(-1), torch.empty(3, 0, dtype=torch.int64)
        lengths: list[Any] = [[9, 8, 7], [0, 0, 0]]
        loss, alpha = aten._ctc_loss(steps, targets, *lengths)
        for row, count in enumerate(lengths[0]):
            alpha[row, count:] = 0  # the forward kernel leaves these elements unwritten
        length_arguments = map(torch.tensor, lengths) if tensors else lengths
        return [[make.values(3, low=-2, high=2), steps, targets, *length_arguments, loss, alpha, 0, False]]

    return argument_lists


def _convolution_of_no_images_calls(make: TensorMaker) -> list[list[Any]]:
    steps = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    return [[make.values(0, 4, 6, 5), make.values(6, 4, 3, 3), make.values(6), *steps, *[False] * 4]]


#: Calls with an empty tensor by overload name.
EMPTY_CALLS: Mapping[str, HandmadeCalls] = {
    "_ctc_loss_backward": HandmadeCalls(
        "nn.functional.ctc_loss", _ctc_loss_backward_without_targets_calls(tensors=False)
    ),
    "_ctc_loss_backward.Tensor": HandmadeCalls(
        "nn.functional.ctc_loss", _ctc_loss_backward_without_targets_calls(tensors=True)
    ),
    "_convolution": HandmadeCalls("nn.functional.conv2d", _convolution_of_no_images_calls),
    # Windows of size zero.
    "unfold_backward": HandmadeCalls("add", lambda m: [[m.values(8, 2, 0), [7, 2], 0, 0, 1]]),
    "multi_margin_loss_backward": HandmadeCalls(
        "nn.functional.multi_margin_loss",
        lambda m: [[m.values(), m.values(0, 5), torch.empty(0, dtype=torch.int64), 1, 1.0, None, 2]],
    ),
    # A matrix without columns.
    "lu_unpack": HandmadeCalls("lu_unpack", lambda m: [[m.values(3, 0), torch.empty(0, dtype=torch.int32)]]),
}
