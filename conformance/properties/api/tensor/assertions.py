"""Check ``torch._assert_async``, which asserts that an element is not zero."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "tensor",
    dtypes=ALL,
    capabilities=("index_checks", "strides"),
    must_detect=("value", "error"),
    page="torch.html",
    basis="parity",
    ground="The function torch._assert_async is private and undocumented",
)
def asserted_values(lab: Lab) -> None:
    """``_assert_async`` of a tensor with one element raises an error with the given message if the element is
    zero, for any memory layout. It does not change the tensor.
    """
    asserts: Any = torch._assert_async
    zeros = torch.zeros(9, dtype=lab.dtype, device=lab.device)
    ones = torch.ones_like(zeros)
    one_among_zeros, zero_among_ones = zeros.clone(), ones.clone()
    one_among_zeros[4], zero_among_ones[4] = 1, 0
    layouts: dict[str, Any] = {
        "dense": lambda t: t[4:5].clone(),
        "without dimensions": lambda t: t[4].clone(),
        "at an offset": lambda t: t[4:5],
        "at an offset, without dimensions": lambda t: t[4],
        "in two dimensions": lambda t: t.reshape(3, 3)[1:2, 1:2],
        "in four dimensions": lambda t: t.as_strided((1, 1, 1, 1), (9, 1, 3, 1), 4),
    }
    for layout, in_layout in layouts.items():
        true, false = in_layout(one_among_zeros), in_layout(zero_among_ones)
        for message in ((), ("it is zero",)):
            asserts(true, *message)
            if lab.on_target:
                lab.target.synchronize()  # so that a late error is not attributed to the next call
            failing_call = partial(asserts, false, *message)
            lab.raises(f"zero, {layout}", failing_call, RuntimeError, match=message[0] if message else None)
        lab.same(f"its argument, {layout}", true)
        lab.same(f"the argument of the failed assertion, {layout}", false)
    lab.same("beside", [one_among_zeros, zero_among_ones])
    lab.raises("two elements", lambda: asserts(ones[:2]), RuntimeError)
    lab.raises("no element", lambda: asserts(ones[:0]), RuntimeError)
