"""Check memory formats, resizing, overlapping memory, ``set_`` and ``data_ptr``."""

from __future__ import annotations

from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab

FORMATS = ((torch.channels_last, (2, 3, 4, 5)), (torch.channels_last_3d, (2, 3, 2, 3, 2)))


@behaviour(
    "tensor",
    capabilities=("channels_last", "strides"),
    level="core",
    must_detect=("value", "stride"),
    page="generated/torch.Tensor.contiguous.html",
)
def memory_format_conversions(lab: Lab) -> None:
    """``contiguous``, ``to`` and ``clone`` return the requested memory format and preserve values."""
    for memory_format, shape in FORMATS:
        base = lab.integers(*shape)
        last = base.contiguous(memory_format=memory_format)
        lab.same("contiguous", last, strides=True)
        lab.holds(
            "the result has the requested memory format", last.is_contiguous(memory_format=memory_format)
        )
        lab.holds("the result does not have the contiguous format", not last.is_contiguous())
        lab.holds(
            "contiguous returns a tensor that has the format",
            last.contiguous(memory_format=memory_format) is last,
        )
        lab.holds("contiguous returns a contiguous tensor itself", base.contiguous() is base)
        lab.same("to", base.to(memory_format=memory_format), strides=True)
        lab.same("to with a dtype", base.to(torch.float64, memory_format=memory_format), strides=True)
        lab.same("clone", base.clone(memory_format=memory_format), strides=True)
        lab.same("clone keeps", last.clone(), strides=True)
        lab.same("clone back", last.clone(memory_format=torch.contiguous_format), strides=True)
        lab.same("to keeps", last.to(torch.float64), strides=True)
        for method_name in ("double", "int", "half", "bool"):
            lab.same(f"{method_name} keeps", getattr(last, method_name)(), strides=True)
            expected = getattr(base, method_name)(memory_format=memory_format)
            lab.same(f"{method_name} with the format", expected, strides=True)
        lab.same(
            "empty in the format",
            lab.strides(torch.empty(shape, device=lab.device, memory_format=memory_format)),
        )
        for call in (torch.zeros_like, torch.ones_like):
            lab.same(f"{call.__name__} keeps", call(last), strides=True)
        for call in (torch.rand_like, torch.randn_like, torch.empty_like):
            lab.same(f"{call.__name__} keeps", lab.strides(call(last)))
        lab.same("randint_like keeps", lab.strides(torch.randint_like(last, 5)))
        with lab.parity("The pages describe the formats of images, but do not say that vectors are refused"):
            lab.raises("of a vector", lambda: lab.integers(3).contiguous(memory_format=memory_format))
        back = last.contiguous()
        lab.same("back", back, strides=True)


@behaviour(
    "tensor",
    capabilities=("channels_last", "strides"),
    must_detect=("value",),
    page="https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
)
def operators_and_formats(lab: Lab) -> None:
    """Pointwise operators on channels-last tensors preserve the memory format, out of place and in place."""
    for memory_format, shape in FORMATS:
        base = lab.floats(*shape, low=0.1, high=0.9)
        last = base.contiguous(memory_format=memory_format)
        calls: dict[str, Any] = {
            "add": lambda x: x + x,
            "multiply by a number": lambda x: x * 3,
            "exp": torch.exp,
            "relu": torch.relu,
            "compare": lambda x: x > 0.5,
            "where": lambda x: torch.where(x > 0.5, x, -x),
            "clamp": lambda x: x.clamp(0.2, 0.8),
            "negate": torch.neg,
            "cast": lambda x: x.to(torch.float64),
            "with a scalar tensor": lambda x: x + torch.ones((), device=x.device),
            "with one channel": lambda x: x * x[:, :1],
            "sign": torch.sign,
        }
        for name, call in calls.items():
            result, contiguous_result = call(last), call(base)
            lab.holds(f"{name} keeps the format", result.is_contiguous(memory_format=memory_format))
            with lab.consistent("results for the two memory formats must agree"):
                same = torch.allclose(result.float(), contiguous_result.float(), rtol=1e-6)
                lab.holds(f"{name} gives the same values", same)
            lab.close(name, result, roundings=4)
        inplace = last.clone().add_(1)
        lab.holds(
            "in-place addition keeps the memory format", inplace.is_contiguous(memory_format=memory_format)
        )
        order = (0, *range(2, last.dim()), 1)
        moved = last.permute(order)
        lab.same("permuted to contiguous", [moved.is_contiguous(), lab.strides(moved)])
        lab.same("and worked upon", lab.strides(moved + 1))
    ambiguous = torch.ones(4, 1, 3, 1, device=lab.device)
    lab.same(
        "both formats at once",
        [ambiguous.is_contiguous(memory_format=f) for f in (torch.contiguous_format, torch.channels_last)],
    )


@behaviour(
    "tensor",
    dtypes=ALL,
    level="core",
    must_detect=("value", "shape", "error"),
    capabilities=("storage", "strides"),
    page="generated/torch.Tensor.resize_.html",
)
def resizing(lab: Lab) -> None:
    """``resize_`` keeps the elements that fit into the new size, and enlarges the memory if necessary.
    Negative sizes and tensors that require grad raise an error.
    """
    base = lab.integers(2, 3)
    before = base.reshape(-1).clone()
    grown = base.resize_(4, 3)
    lab.holds("resize_ returns its tensor", grown is base)
    lab.same("after growing", [base.shape, lab.strides(base)])
    lab.same("the first elements", base.reshape(-1)[:6] + torch.zeros_like(before))
    base.zero_()
    lab.same("zeroed", base)
    base.resize_(2, 2)
    lab.same("after shrinking", base)
    lab.holds("shrinking keeps the storage size", base.untyped_storage().nbytes() == 12 * base.element_size())
    base.resize_(0)
    lab.same("to nothing", base)
    base.resize_((3,)).fill_(1)
    lab.same("and back", base)
    like = torch.zeros(2, 2, dtype=lab.dtype, device=lab.device)
    lab.same("resize_as_", base.resize_as_(like).shape)
    if lab.target.capable("channels_last"):
        last = torch.zeros(0, dtype=lab.dtype, device=lab.device).resize_(
            (1, 2, 3, 3), memory_format=torch.channels_last
        )
        lab.same("in a memory format", lab.strides(last))
    large = lab.integers(9000)
    lab.same("a large one", large.resize_(90, 100))
    if lab.dtype == torch.bool:
        with lab.parity("No page says which byte stores True"):
            lab.same("bytes of the enlarged tensor's elements", large.view(torch.uint8))
    part = lab.integers(10)[4:6]
    part.resize_(3)
    with lab.parity("No page says that the storage offset is kept"):
        lab.same("from an offset", [part.shape, part.storage_offset()])
    with lab.parity("No page says that a negative size is refused"):
        lab.raises("to a negative size", lambda: base.resize_(-1))
    if lab.dtype.is_floating_point:
        graded = torch.ones(2, dtype=lab.dtype, device=lab.device, requires_grad=True)
        with lab.parity("No page says that a tensor that requires grad is refused"):
            lab.raises("with gradients", lambda: graded.resize_(3), match="require grad")


@behaviour(
    "tensor",
    must_detect=("error",),
    page="generated/torch.Tensor.expand.html",
    basis="parity",
    ground="pages warn that writes to overlapping memory may be wrong; no page says that they are refused",
)
def overlap_refused(lab: Lab) -> None:
    """A write raises a RuntimeError if elements of the written tensor share memory, or if the written memory
    partly overlaps the input.
    """

    def zeros_in_shared_memory() -> torch.Tensor:
        return torch.zeros(1, device=lab.device).expand(6)

    index = lab.put([0, 1, 2])
    ones = torch.ones(3, device=lab.device)
    message_pattern = "unsupported operation|single memory location|overlap"
    into_folded: dict[str, Any] = {
        "copy_": lambda: zeros_in_shared_memory().copy_(torch.ones(6, device=lab.device)),
        "index_add_": lambda: zeros_in_shared_memory().index_add_(0, index, ones),
        "index_copy_": lambda: zeros_in_shared_memory().index_copy_(0, index, ones),
        "put_": lambda: zeros_in_shared_memory().put_(index, ones),
        "masked_scatter_": lambda: zeros_in_shared_memory().masked_scatter_(
            torch.ones(6, dtype=torch.bool, device=lab.device), ones.repeat(2)
        ),
        "scatter_": lambda: zeros_in_shared_memory().scatter_(0, index, ones),
        "add_": lambda: zeros_in_shared_memory().add_(1),
        "addcmul_": lambda: zeros_in_shared_memory().addcmul_(
            zeros_in_shared_memory(), zeros_in_shared_memory()
        ),
        "addcdiv_": lambda: zeros_in_shared_memory().addcdiv_(
            zeros_in_shared_memory(), zeros_in_shared_memory()
        ),
        "lerp_": lambda: zeros_in_shared_memory().lerp_(zeros_in_shared_memory(), 0.5),
        "bernoulli_ of probabilities": lambda: zeros_in_shared_memory().bernoulli_(
            torch.full((6,), 0.5, device=lab.device)
        ),
        "neg_": lambda: zeros_in_shared_memory().neg_(),
        "sub_": lambda: zeros_in_shared_memory().sub_(zeros_in_shared_memory()),
    }
    for name, call in into_folded.items():
        lab.raises(f"{name} into shared elements", call, match=message_pattern)
    line = torch.arange(8.0, device=lab.device)
    shifted: dict[str, Any] = {
        "index_add_": lambda: line[:4].index_add_(0, index, line[1:4]),
        "index_copy_": lambda: line[:4].index_copy_(0, index, line[2:5]),
        "index_put_": lambda: line[:4].index_put_((index,), line[1:4]),
        "put_": lambda: line[:4].put_(index, line[1:4]),
        "scatter_": lambda: line[:4].scatter_(0, index, line[1:4]),
        "exp into a shift": lambda: torch.exp(line[:4], out=line[1:5]),
        "add into a shift": lambda: torch.add(line[:4], line[:4], out=line[1:5]),
        "addcmul into a shift": lambda: torch.addcmul(line[:4], line[4:], line[4:], out=line[1:5]),
    }
    for name, call in shifted.items():
        lab.raises(f"{name} with partly overlapping memory", call, match=message_pattern)


@behaviour(
    "tensor",
    level="core",
    must_detect=("value", "error"),
    capabilities=("storage",),
    page="generated/torch.Tensor.set_.html",
)
def set_to_other_memory(lab: Lab) -> None:
    """``set_`` makes a tensor use the memory of another tensor, with any offset, sizes and strides. Another
    dtype, another device and invalid sizes or offsets raise an error.
    """
    base = torch.arange(12.0, device=lab.device)
    alias = torch.empty(0, device=lab.device)
    alias.set_(base)  # type: ignore[call-overload]
    lab.same("the same", alias, strides=True)
    lab.holds(
        "is_set_to compares memory, sizes and strides",
        alias.is_set_to(base) and not alias.is_set_to(base.view(3, 4)),
    )
    lab.holds("is_set_to distinguishes parts of a tensor", not base[1:].is_set_to(base[:-1]))
    alias.set_(base.untyped_storage(), 2, (2, 3), (4, 1))
    lab.expect("a part", alias, [[2, 3, 4], [6, 7, 8]])
    alias.set_(base.untyped_storage(), 1, (3,))  # type: ignore[call-overload]
    lab.expect("a part without strides", alias, [1, 2, 3])
    alias.fill_(-1)
    lab.expect("what was written", base[:5], [0, -1, -1, -1, 4])
    lab.shares("both", base, alias)
    alias.set_()  # type: ignore[call-overload]
    with lab.parity("No page says what set_ without arguments does"):
        lab.same("nothing", [alias.shape, alias.untyped_storage().nbytes()])
    storage = base.untyped_storage()
    whole = torch.empty(0, device=lab.device).set_(storage)
    lab.same("of a storage alone", whole)
    with lab.parity("No page says that another dtype is refused"):
        lab.raises("another dtype", lambda: torch.empty(0, dtype=torch.int32, device=lab.device).set_(base))  # type: ignore[call-overload]
    with lab.parity("No page says that another device is refused"):
        lab.raises("another device", lambda: torch.empty(0, device="meta").set_(base))  # type: ignore[call-overload]
    with lab.parity("No page says that a negative offset is refused"):
        lab.raises(
            "a negative offset", lambda: torch.empty(0, device=lab.device).set_(storage, -1, (2,), (1,))
        )
    with lab.parity("No page says that different numbers of sizes and strides are refused"):
        lab.raises(
            "different numbers of sizes and strides",
            lambda: torch.empty(0, device=lab.device).set_(storage, 0, (2,), (1, 1)),
        )


@behaviour(
    "tensor",
    dtypes=("float32", "int64"),
    must_detect=("value", "alias"),
    capabilities=("storage",),
    page="generated/torch.Tensor.data_ptr.html",
    basis="consistency",
    ground="addresses must agree with storage offsets and strides, and must not change in in-place writes",
)
def addresses_of_parts(lab: Lab) -> None:
    """``data_ptr`` of a view is the base's ``data_ptr`` plus the offset in bytes. It is 0 for an empty
    tensor, and in-place operations do not change it.
    """
    base = lab.integers(4, 5)
    item = base.element_size()
    lab.holds(
        "the address of row 2 is the base address plus two rows",
        base[2].data_ptr() - base.data_ptr() == 10 * item,
    )
    lab.holds(
        "the address of column 3 is the base address plus three elements",
        base[:, 3].data_ptr() - base.data_ptr() == 3 * item,
    )
    with lab.parity("The page of storages says that the two addresses need not match"):
        lab.holds(
            "the storage begins at the tensor's address", base.untyped_storage().data_ptr() == base.data_ptr()
        )
    before = base.data_ptr()
    base.add_(1).mul_(2).zero_()
    lab.holds("in-place operations keep the address", base.data_ptr() == before)
    lab.same("values after in-place operations", base)
    lab.holds("a detached tensor has the same address", base.detach().data_ptr() == before)
    with lab.parity("No page gives the address of a tensor without elements"):
        lab.expect("of nothing", torch.empty(0, device=lab.device).data_ptr(), 0)
        lab.expect("address of an empty slice", base[4:].data_ptr(), 0)
        lab.expect("address of a view of an empty slice", base[:, 5:].view(-1).data_ptr(), 0)
        lab.expect("of nothing with memory", base.new_empty(4).resize_(0).data_ptr(), 0)
