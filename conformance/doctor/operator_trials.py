"""Try the operators of a level, and find the missing kernels of the operators that fail."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import one_line
from conformance.plan import plan
from conformance.samples import sample_limit
from conformance.samples.copies import to_device
from conformance.samples.operators import dtype_of, samples_of
from conformance.subjects.torch_databases import find
from conformance.target.target import Target

_NO_KERNEL = re.compile(r"Could not run '([\w:.]+)' with arguments from the '(\w+)' backend")


def operators_of_level(target: Target, level: str) -> list[str]:
    """Return the operators of a level, each with the first dtype of its plan (``add@float32``)."""
    first_dtypes: dict[str, str] = {}
    for case in plan.build_plan(target, level).cases:
        if case.kind == "operator":
            first_dtypes.setdefault(case.subject, case.dtypes[0])
    return [f"{name}@{dtype}" for name, dtype in first_dtypes.items()]


def first_error_and_missing_kernels(target: Target, name: str, dtype: str) -> tuple[str, list[str]]:
    """Run an operator's samples on the device. Return the message of the first error (empty on success) and
    the missing kernels.
    """
    subject, kind = find("operator", name), dtype_of(dtype)
    first, kernels = "", list[str]()
    samples = samples_of(subject, kind)
    for sample in samples.chosen(sample_limit.limit()):
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                copy = to_device(sample, target)
                if copy is not None:
                    copy.call(subject.info.op)
                target.synchronize()
        except Exception as error:
            missing = _NO_KERNEL.search(str(error))
            if missing is None and not _fails_on_cpu(subject, sample):
                first = first or one_line(error)
            elif missing is not None:
                kernel = missing[1]
                if kernel not in kernels:
                    kernels.append(kernel)
                first = first or f"no kernel {kernel}"
    return first, kernels


def _fails_on_cpu(subject: object, sample: object) -> bool:
    """Return True if the sample raises on the CPU too. An error on the device is then not the device's
    fault.
    """
    from conformance.samples.copies import to_host

    try:
        with torch_testing_internals.silence_warnings(), torch.no_grad():
            to_host(sample).call(subject.info.op)  # type: ignore[arg-type, attr-defined]
    except Exception:
        return True
    return False


def error_of_dtype_trial(target: Target, name: str) -> str:
    """Copy a tensor with this dtype to the device and back, and fill a tensor on the device. Return the error
    message, or an empty text on success.
    """
    dtype: torch.dtype | None = getattr(torch, name, None)
    if dtype is None:
        return f"this torch has no dtype {name}"
    start = (
        torch.tensor([True, False]) if dtype is torch.bool else torch.arange(64).to(torch.uint8).view(dtype)
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            back = start.to(target.device).cpu()
            if back.dtype != dtype or not torch.equal(back.view(torch.uint8), start.view(torch.uint8)):
                return "a copy to the device and back changed the tensor"
            torch.zeros(2, dtype=dtype, device=target.device).cpu()
    except Exception as error:
        return one_line(error)
    return ""


def operators_by_missing_kernel(
    missing_kernels_by_operator: Mapping[str, Sequence[str]],
) -> list[tuple[str, list[str]]]:
    """Return each missing kernel with the operators that need it, the most needed kernel first.

    ``missing_kernels_by_operator`` maps an operator to its missing kernels.
    """
    operators: dict[str, list[str]] = {}
    for name, kernels in missing_kernels_by_operator.items():
        for kernel in kernels:
            operators.setdefault(kernel, []).append(name)
    return sorted(operators.items(), key=lambda entry: (-len(entry[1]), entry[0]))
