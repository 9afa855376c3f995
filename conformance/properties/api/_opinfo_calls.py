"""The first sample of each entry of torch's operator database, as a call on a lab's device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.behaviours.lab import Lab, own_work
from conformance.framework.trees import leaves, tensors, tree_map


@dataclasses.dataclass(frozen=True)
class OpInfoCall:
    """The first sample of an OpInfo entry: ``function(*arguments, **options)``.

    ``in_place`` is the variant that writes its first argument.
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

    def with_tensors(self, given: Sequence[Any]) -> OpInfoCall:
        """Return the same call of other tensors."""
        rest = iter(given)

        def other(leaf: Any) -> Any:
            return next(rest) if isinstance(leaf, torch.Tensor) else leaf

        arguments, options = tree_map(other, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)

    def at(self, device: str) -> OpInfoCall:
        """Return the same call with every device among its arguments replaced."""

        def other(leaf: Any) -> Any:
            return torch.device(device) if isinstance(leaf, torch.device) else leaf

        arguments, options = tree_map(other, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)

    def renewed(self, lab: Lab) -> OpInfoCall:
        """Return the same call with other numbers in tensors of floating dtypes, between 0 and 1."""

        def other(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.layout is torch.strided:
                return lab.floats(*leaf.shape, low=0.0, high=1.0, dtype=leaf.dtype)
            return leaf

        arguments, options = tree_map(other, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)

    def copied(self) -> OpInfoCall:
        """Return the same call with copies of its tensors."""

        def copy(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)

        with own_work():
            arguments, options = tree_map(copy, (self.arguments, self.options))
        return dataclasses.replace(self, arguments=arguments, options=options)


def calls(lab: Lab, part: int, parts: int) -> Iterator[OpInfoCall]:
    """Yield the call of each ``parts``-th entry, from number ``part`` on, in order of the names."""
    entries = [
        op for op in torch_testing_internals.op_db() if not torch_testing_internals.is_device_specific(op)
    ]
    entries.sort(key=lambda op: str(op.formatted_name))

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(lab.device).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu"):
            return lab.device
        return leaf

    for info in entries[part::parts]:
        if lab.dtype not in torch_testing_internals.forward_dtypes(info):
            continue
        seed = torch_testing_internals.seed_for(info.formatted_name, str(lab.dtype))
        sample = torch_testing_internals.first_sample(info, lab.dtype, seed=seed)
        if sample is None:
            continue
        with own_work():
            arguments, options = tree_map(moved, ((sample.input, *sample.args), dict(sample.kwargs)))
        yield OpInfoCall(str(info.formatted_name), info.op, info.inplace_variant, arguments, options, info)


_NUMBERS: dict[type, str] = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}


def forms(value: Any) -> list[Any]:
    """Return shape, dtype and type of device of each tensor of a tree; of other leaves the type's word, with
    symbolic numbers as numbers.
    """
    return [
        (tuple(int(size) for size in leaf.shape), leaf.dtype, leaf.device.type)
        if isinstance(leaf, torch.Tensor)
        else _NUMBERS.get(type(leaf), type(leaf).__name__)
        for leaf in leaves(value)
    ]


def near(left: Any, right: Any) -> bool:
    """Return whether two trees hold the same numbers up to the order in which they were computed."""
    ours, theirs = list(leaves(left)), list(leaves(right))
    return len(ours) == len(theirs) and all(map(_near, ours, theirs))


def _near(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b) or a != a
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    with own_work():
        wide = torch.complex128 if a.is_complex() else torch.float64
        a, b = (x.detach().cpu().to(wide) for x in (a, b))
        return torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)
