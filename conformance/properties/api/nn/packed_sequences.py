"""Check sequences that are padded, packed and unpacked."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import rnn

from conformance.behaviours.behaviour import INTEGERS, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "nn",
    dtypes=("float32", *INTEGERS),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.utils.rnn.pad_sequence.html",
)
def padding_sequences(lab: Lab) -> None:
    """``pad_sequence`` stacks sequences and pads the shorter ones on the left or right. ``unpad_sequence``
    removes the padding.
    """
    a, b, c = (
        lab.put([1, 2, 3], dtype=lab.dtype),
        lab.put([4, 5], dtype=lab.dtype),
        lab.put([6], dtype=lab.dtype),
    )
    lab.expect(
        "batch first", rnn.pad_sequence([b, a, c], batch_first=True), [[4, 5, 0], [1, 2, 3], [6, 0, 0]]
    )
    lab.expect("time first", rnn.pad_sequence([b, a, c]), [[4, 1, 6], [5, 2, 0], [0, 3, 0]])
    lab.expect("another value", rnn.pad_sequence([b, a, c], True, 1), [[4, 5, 1], [1, 2, 3], [6, 1, 1]])
    lab.expect(
        "on the left",
        rnn.pad_sequence([b, a, c], True, padding_side="left"),
        [[0, 4, 5], [1, 2, 3], [0, 0, 6]],
    )
    for trailing in ((), (3,), (2, 2)):
        parts = [lab.integers(size, 2, *trailing) for size in (4, 1, 3)]
        for first in (True, False):
            padded = rnn.pad_sequence(parts, batch_first=first)
            lab.same(f"padded {trailing}, {first}", padded)
            lab.same(
                f"unpadded {trailing}, {first}",
                rnn.unpad_sequence(padded, torch.tensor([4, 1, 3]), batch_first=first),
            )
    stacked = lab.integers(2, 3, 2)
    with lab.parity("The page describes a list of tensors; a single tensor is undocumented"):
        lab.same("a tensor of sequences", (rnn.pad_sequence(stacked), rnn.pad_sequence(tuple(stacked))))  # type: ignore[arg-type]


@behaviour(
    "nn",
    dtypes=("float32", "int64"),
    level="core",
    must_detect=("value", "error", "message"),
    page="generated/torch.nn.utils.rnn.pack_padded_sequence.html",
)
def packing_sequences(lab: Lab) -> None:
    """A ``PackedSequence`` stores the elements of all sequences by time step, longest sequence first, and the
    original order of the sequences. Unpacking is the inverse of packing.
    """
    a, b, c = (
        lab.put([1, 2, 3], dtype=lab.dtype),
        lab.put([4, 5], dtype=lab.dtype),
        lab.put([6], dtype=lab.dtype),
    )
    for order, forth, back in (((a, b, c), [0, 1, 2], [0, 1, 2]), ((b, c, a), [2, 0, 1], [1, 2, 0])):
        packed = rnn.pack_sequence(order, enforce_sorted=False)  # type: ignore[arg-type]
        lab.expect("data", packed.data, [1, 4, 6, 2, 5, 3])
        lab.expect("sizes of steps", packed.batch_sizes, [3, 2, 1], host=True)
        lab.expect("order", packed.sorted_indices, forth)
        lab.expect("and back", packed.unsorted_indices, back)
        lab.same("unpacked", rnn.unpack_sequence(packed))
        lab.same("padded again", rnn.pad_packed_sequence(packed, batch_first=True)[0])
    sure = rnn.pack_sequence([a, b, c], enforce_sorted=True)
    lab.holds(
        "a sorted batch has no index tensors", sure.sorted_indices is None and sure.unsorted_indices is None
    )
    lab.raises(
        "an unsorted batch",
        lambda: rnn.pack_sequence([b, c, a], enforce_sorted=True),
        match="enforce_sorted=False",
    )
    lab.raises(
        "lengths that grow",
        lambda: rnn.pack_padded_sequence(lab.integers(3, 3), [1, 3, 2]),
        match="enforce_sorted=False",
    )
    with lab.parity("No page says that an empty batch is an error"):
        lab.raises(
            "an empty batch",
            lambda: rnn.pack_padded_sequence(lab.integers(0, 0), torch.empty(0, dtype=torch.int64)),
            match="(?i)empty",
        )
    with lab.parity("No page says that a length of zero is an error"):
        lab.raises(
            "a length of zero",
            lambda: rnn.pack_padded_sequence(lab.integers(3, 2), [2, 0]),
            match="(?i)length",
        )
    with lab.parity("The page states the expected shape, but not that another shape is an error"):
        lab.raises(
            "more lengths than sequences", lambda: rnn.pack_padded_sequence(lab.integers(3, 2), [2, 1, 1])
        )
    with lab.parity("The page describes a list of tensors, but does not say that another value is an error"):
        lab.raises("a number", lambda: rnn.pad_sequence(5), match="(?i)iterable")  # type: ignore[arg-type]
    for trailing in ((), (3,), (2, 2)):
        padded = lab.integers(5, 3, *trailing)
        lengths = torch.tensor([3, 5, 1])
        for first in (True, False):
            source = padded.transpose(0, 1) if first else padded
            packed = rnn.pack_padded_sequence(source, lengths, batch_first=first, enforce_sorted=False)
            lab.same(f"packed {trailing}, {first}", (packed.data, packed.sorted_indices))
            padded_result, sizes = rnn.pad_packed_sequence(packed, batch_first=first, padding_value=7)
            lab.same(f"padded again {trailing}, {first}", padded_result)
            lab.same(f"lengths {trailing}, {first}", sizes, host=True)
            longer, _ = rnn.pad_packed_sequence(packed, batch_first=first, total_length=7)
            lab.same(f"padded to a total length {trailing}, {first}", longer)
    for short in (-1, 0, 2):
        lab.raises(
            f"a total length of {short}",
            lambda: rnn.pad_packed_sequence(packed, total_length=short),
            ValueError,
            match="total_length",
            type_is_documented=True,
        )


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.utils.rnn.pad_packed_sequence.html",
    ground="gradients follow from copying elements",
)
def gradients_through_packing(lab: Lab) -> None:
    """Gradients of a packed sequence flow to the packed elements. The gradient of the padding is zero."""
    padded = lab.integers(4, 3, 2, requires_grad=True)
    packed = rnn.pack_padded_sequence(padded, torch.tensor([2, 4, 1]), enforce_sorted=False)
    padded_result, _ = rnn.pad_packed_sequence(packed)
    padded_result.backward(lab.integers(4, 3, 2))
    lab.same("gradient", padded.grad)
    parts = [lab.integers(size, requires_grad=True) for size in (2, 3)]
    (rnn.pad_sequence(parts) * 2).sum().backward()
    lab.expect("through padding", parts[0].grad, [2.0, 2.0])


@behaviour(
    "nn",
    dtypes=("float32", "int32"),
    must_detect=("value",),
    page="generated/torch.nn.utils.rnn.PackedSequence.html",
)
def moving_packed_sequences(lab: Lab) -> None:
    """A packed sequence can be cast and moved like a tensor. The order of its sequences is preserved. If
    dtype and device do not change, ``to`` returns the same object.
    """
    host: Any = rnn.pack_padded_sequence(
        lab.integers(4, 3).cpu(), torch.tensor([2, 4, 1]), enforce_sorted=False
    )
    moved = host.to(lab.device)
    lab.holds(
        "data and indices are on the device",
        moved.data.device.type == lab.device.type == moved.sorted_indices.device.type,
    )
    lab.holds("batch sizes stay on the CPU", moved.batch_sizes.device.type == "cpu")
    lab.same("data", (moved.data, moved.sorted_indices, moved.unsorted_indices))
    lab.holds(
        "to() returns the same object if nothing changes",
        moved.to(lab.device) is moved and moved.to(dtype=lab.dtype) is moved,
    )
    lab.holds(
        "cpu() moves the sequence to the CPU",
        moved.cpu().data.device.type == "cpu" and moved.is_cuda == moved.data.is_cuda,
    )
    lab.same("of the host again", moved.cpu().data, host=True)
    casts = {
        "float": torch.float32,
        "half": torch.float16,
        "long": torch.int64,
        "int": torch.int32,
        "short": torch.int16,
    }
    casts |= {"char": torch.int8, "byte": torch.uint8}
    if lab.target.declares("float64"):
        casts["double"] = torch.float64
    for name, dtype in casts.items():
        if name == "byte":
            continue
        result = getattr(moved, name)()
        lab.same(f"{name}", (result.data, result.sorted_indices))
        lab.same(f"to {name}", moved.to(dtype).data)
        lab.same(f"unpacked {name}", rnn.pad_packed_sequence(result)[0])
    positive = rnn.pack_sequence([lab.integers(3).abs(), lab.integers(1).abs()])
    lab.same("byte", positive.byte().data)
