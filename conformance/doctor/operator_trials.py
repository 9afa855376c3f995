"""The operators of a level that run at all, and the kernels that the others lack."""

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


def of_level(target: Target, level: str) -> list[str]:
    """List the operators of a level, each with the first dtype that it is checked in (``add@float32``)."""
    first_dtypes: dict[str, str] = {}
    for case in plan.build_plan(target, level).cases:
        if case.kind == "operator":
            first_dtypes.setdefault(case.subject, case.dtypes[0])
    return [f"{name}@{dtype}" for name, dtype in first_dtypes.items()]


def attempt(target: Target, name: str, dtype: str) -> tuple[str, list[str]]:
    """Run an operator's samples on the device; return the first error and the missing kernels."""
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
            if missing is None and not _refused_on_host(subject, sample):
                first = first or one_line(error)
            elif missing is not None:
                kernel = missing[1]
                if kernel not in kernels:
                    kernels.append(kernel)
                first = first or f"no kernel {kernel}"
    return first, kernels


def _refused_on_host(subject: object, sample: object) -> bool:
    """Return True if the CPU raises as well; such a sample says nothing about the device."""
    from conformance.samples.copies import to_host

    try:
        with torch_testing_internals.quiet(), torch.no_grad():
            to_host(sample).call(subject.info.op)  # type: ignore[arg-type, attr-defined]
    except Exception:
        return True
    return False


def attempt_dtype(target: Target, name: str) -> str:
    """Copy bytes of a dtype to the device and back, and fill a tensor there; return the failure, or ""."""
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
                return "copying there and back changed it"
            torch.zeros(2, dtype=dtype, device=target.device).cpu()
    except Exception as error:
        return one_line(error)
    return ""


def by_kernel(waiting: Mapping[str, Sequence[str]]) -> list[tuple[str, list[str]]]:
    """List missing kernels with the operators that need each, the most needed first."""
    operators: dict[str, list[str]] = {}
    for name, kernels in waiting.items():
        for kernel in kernels:
            operators.setdefault(kernel, []).append(name)
    return sorted(operators.items(), key=lambda entry: (-len(entry[1]), entry[0]))
