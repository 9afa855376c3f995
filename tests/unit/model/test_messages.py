"""``model.messages`` replaces numbers, shapes, dtypes and names in messages, so that messages of one cause
are equal.
"""

from __future__ import annotations

import pytest

from conformance.model.messages import message_pattern

BROKEN = "the call on (({}, 4) float32 on hpu:0) raised RuntimeError: allocator is out of {} blocks at {}"


@pytest.mark.parametrize(
    ("message", "subject", "shape"),
    [
        (
            "the result is 0.5 at [1, 2], expected -1e-05 (allowed 1.05e-07; 1 of 125 are wrong).",
            "add",
            "the result is # at #, expected # (allowed #; # of # are wrong).",
        ),
        (BROKEN.format(3, 17, "0x7f00"), "add", "RuntimeError: allocator is out of # blocks at #"),
        (
            "add was refused: RuntimeError: \"add_kernel\" not implemented for 'Half'",
            "add",
            'RuntimeError: "SUBJECT_kernel" not implemented for DTYPE',
        ),
        (
            "convolution was refused: NotImplementedError: convolution_overrideable not implemented",
            "convolution",
            "NotImplementedError: convolution_overrideable not implemented",
        ),
        (
            "the call was refused: NotImplementedError: Could not run 'aten::tril' with arguments from hpu",
            "linalg.lu",
            "NotImplementedError: Could not run 'aten::tril' with arguments from hpu",
        ),
        ("it has shape [3, 0], expected [].", "sum", "it has shape #, expected #."),
        ("declared dtype torch.float16 is nan", "sum", "declared dtype DTYPE is #"),
        ("conv2d differs\nmore", "nn.functional.conv2d", "SUBJECT differs"),
    ],
)  # fmt: skip
def test_message_pattern_of_a_message(message: str, subject: str, shape: str) -> None:
    assert message_pattern(message, subject) == shape
