"""Make calls from torch's operator database (``op_db``): the first sample of each OpInfo, on the device of a
Lab.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.lab import Lab, lab_work
from conformance.framework.trees import leaves, tensors, tree_map


@dataclasses.dataclass(frozen=True)
class OpInfoCall:
    """The first sample of an OpInfo: ``function(*arguments, **options)``.

    ``in_place`` is the operator's in-place variant, which writes its first argument, or None.
    """

    name: str
    function: Callable[..., Any]
    in_place: Callable[..., Any] | None
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    info: Any

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments and options, in order."""
        return tensors((self.arguments, self.options))

    def with_replaced_tensors(self, new_tensors: Sequence[Any]) -> OpInfoCall:
        """Return the call with its tensors replaced by ``new_tensors``, in order."""
        remaining = iter(new_tensors)

        def next_new_tensor(leaf: Any) -> Any:
            return next(remaining) if isinstance(leaf, torch.Tensor) else leaf

        arguments, options = tree_map(next_new_tensor, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)

    def on_device(self, device: str) -> OpInfoCall:
        """Return the call with each device argument replaced by ``device``."""

        def replaced_device(leaf: Any) -> Any:
            return torch.device(device) if isinstance(leaf, torch.device) else leaf

        arguments, options = tree_map(replaced_device, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)

    def with_random_values(self, lab: Lab) -> OpInfoCall:
        """Return the call with new random values between 0 and 1 in its strided floating tensors."""

        def randomized_leaf(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.layout is torch.strided:
                return lab.floats(*leaf.shape, low=0.0, high=1.0, dtype=leaf.dtype)
            return leaf

        arguments, options = tree_map(randomized_leaf, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)

    def with_copied_tensors(self) -> OpInfoCall:
        """Return the call with copies of its tensors."""

        def copied_tensor(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)

        with lab_work():
            arguments, options = tree_map(copied_tensor, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)


def first_sample_calls(lab: Lab, shard: int, shard_count: int) -> Iterator[OpInfoCall]:
    """Yield the first-sample calls of every ``shard_count``-th OpInfo, starting with number ``shard``. The
    OpInfos are sorted by name.
    """
    entries = [
        op for op in torch_testing_internals.op_db() if not torch_testing_internals.is_device_specific(op)
    ]
    entries.sort(key=lambda op: str(op.formatted_name))

    def moved_to_device(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(lab.device).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
            return lab.device
        return leaf

    for info in entries[shard::shard_count]:
        if lab.dtype not in torch_testing_internals.forward_dtypes(info):
            continue
        seed = torch_testing_internals.seed_for(info.formatted_name, str(lab.dtype))
        sample = torch_testing_internals.first_sample(info, lab.dtype, seed=seed)
        if sample is None:
            continue
        with lab_work():
            arguments, options = tree_map(
                moved_to_device, ((sample.input, *sample.args), dict(sample.kwargs))
            )
        yield OpInfoCall(str(info.formatted_name), info.op, info.inplace_variant, arguments, options, info)


_NUMBERS: dict[type, str] = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}


def describe_leaves(value: Any) -> list[Any]:
    """Return the shape, dtype and device type of each tensor of a tree, and the type name of each other leaf.

    For a symbolic number, such as a SymInt, the name is the name of the ordinary type, such as int.
    """
    return [
        (tuple(int(size) for size in leaf.shape), leaf.dtype, leaf.device.type)
        if isinstance(leaf, torch.Tensor)
        else _NUMBERS.get(type(leaf), type(leaf).__name__)
        for leaf in leaves(value)
    ]


def trees_are_close(actual: Any, expected: Any) -> bool:
    """Return whether two trees have equal values up to the rounding that a different order of computation
    causes.
    """
    actual_leaves, expected_leaves = list(leaves(actual)), list(leaves(expected))
    return len(actual_leaves) == len(expected_leaves) and all(
        map(_leaves_are_close, actual_leaves, expected_leaves)
    )


def _leaves_are_close(actual: Any, expected: Any) -> bool:
    if not isinstance(actual, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return bool(actual == expected) or actual != actual
    if actual.layout is not torch.strided:
        actual, expected = actual.to_dense(), expected.to_dense()
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    with lab_work():
        wide = torch.complex128 if actual.is_complex() else torch.float64
        actual, expected = (leaf.detach().cpu().to(wide) for leaf in (actual, expected))
        return torch.allclose(actual, expected, rtol=1e-3, atol=1e-3, equal_nan=True)
