"""Behaviours of the derivatives of foreach operators: ``gradcheck`` of the operators in torch's database."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import gradcheck
from torch.autograd.gradcheck import GradcheckError

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map

#: The numbers of real and complex samples that are checked for each operator. There are fewer complex
#: samples, because they take twice as long.
SAMPLE_LIMIT = 2
COMPLEX_SAMPLE_LIMIT = 1


def _check_gradients(lab: Lab, name: str, info: Any, sample: Any, in_place: bool) -> None:
    """Record the outcome of ``gradcheck`` for one sample of a foreach operator: True, False, or the name of
    an error. False in backward mode is a failure.
    """

    def moved_to_device(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return lab.to(leaf.detach()).requires_grad_(leaf.requires_grad)
        return leaf

    def random_values_inside_domain(leaf: Any) -> Any:
        """Return random values between 0.2 and 0.9 in place of a floating tensor. These values are in the
        domain of every operator.
        """
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return lab.floats(
                *leaf.shape, low=0.2, high=0.9, dtype=leaf.dtype, requires_grad=leaf.requires_grad
            )
        return moved_to_device(leaf)

    inputs, args, options = tree_map(
        random_values_inside_domain, (list(sample.input), sample.args, dict(sample.kwargs))
    )
    options.pop("disable_fastpath", None)
    call: Callable[..., Any] = info.inplace_variant if in_place else info.op

    def call_on_tensors(*tensors: torch.Tensor) -> Any:
        if not in_place:
            return call(list(tensors), *args, **options)
        copies = [tensor.clone() for tensor in tensors]
        call(copies, *args, **options)
        return tuple(copies)

    def outcome_of_gradcheck(forward_mode: bool) -> Any:
        try:
            return gradcheck(
                call_on_tensors,
                tuple(inputs),
                check_forward_ad=forward_mode,
                check_backward_ad=info.supports_autograd,
                check_batched_grad=False,
                fast_mode=True,
            )
        except GradcheckError:
            return False
        except Exception as error:
            return type(error).__name__

    forward_mode = info.supports_forward_ad and not torch_testing_internals.is_dispatch_mode_active()
    outcome = outcome_of_gradcheck(forward_mode)
    backward = outcome if outcome is True or not forward_mode else outcome_of_gradcheck(False)
    with lab.parity("The page lists only some list operators, and says that they support no forward mode"):
        lab.same(f"gradcheck of {name}", outcome)
    lab.holds(f"gradients of {name} agree with finite differences", backward is not False)


for _kind, _part in itertools.product(("", "-in-place"), range(4)):

    @behaviour(
        "foreach",
        name=f"derivatives-of-lists{_kind}-{_part + 1}-of-4",
        dtypes=("float64", "complex128"),
        capabilities=("autograd", "forward_ad"),
        must_detect=("value",),
        page="torch.html",
        basis="consistency",
        ground="The gradients of a list operator must agree with finite differences of its own values",
    )
    def _derivatives(lab: Lab, part: int = _part, in_place: bool = bool(_kind)) -> None:
        """For a fourth of the foreach operators in torch's operator database, ``gradcheck`` passes in
        backward mode. In forward mode, ``gradcheck`` has the same outcome as on the CPU.
        """
        for info in torch_testing_internals.foreach_db()[part::4]:
            if not info.supports_autograd or lab.dtype not in torch_testing_internals.forward_dtypes(info):
                continue
            if in_place and info.inplace_variant is None:
                continue
            seed = torch_testing_internals.seed_for(info.name, str(lab.dtype))
            samples = torch_testing_internals.foreach_inputs(info, lab.dtype, seed=seed)
            limit = COMPLEX_SAMPLE_LIMIT if lab.dtype.is_complex else SAMPLE_LIMIT
            for number, sample in enumerate(samples[:limit]):
                _check_gradients(lab, f"{info.name} [{number}]", info, sample, in_place)
        lab.same("a product", torch._foreach_mul([lab.integers(2), lab.integers(3)], 2))
