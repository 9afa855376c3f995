"""Try the prerequisites: features of a device that the suite itself needs before it can check an operator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch

from conformance.device.known_answer_probe import probe_dtype
from conformance.doctor.registration_checks import Fact
from conformance.framework.calls import one_line
from conformance.samples.copies import Copier, WrongCopy
from conformance.target.target import Target


def _dense_test_tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.arange(6).to(dtype).view(2, 3), torch.tensor(3).to(dtype), torch.empty(0, 2, dtype=dtype)]


def _strided_test_tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    base = torch.arange(24).to(dtype)
    return [base[3:21].view(3, 6).t()[::2], base[:4].expand(2, 4), base[5]]


#: Maps the name of a prerequisite to the function that makes the tensors to copy, the kernels that copying
#: needs, and the consequence if a kernel is missing.
_TRIALS: dict[str, tuple[Callable[[torch.dtype], list[torch.Tensor]], str, str]] = {
    "copies": (
        _dense_test_tensors,
        "aten::empty_strided, aten::_copy_from or aten::copy_ (both ways), aten::_to_copy",
        "no operator can be checked",
    ),
    "strided memory": (
        _strided_test_tensors,
        "aten::set_.source_Storage_storage_offset or aten::as_strided, aten::view, aten::clone",
        "samples with strides, offsets or shared memory cannot be checked, whatever the operator",
    ),
}


def collect_prerequisite_facts(target: Target) -> Iterator[Fact]:
    """Try each prerequisite on the target's device and yield the facts."""
    for name, (tensors, kernels, consequence) in _TRIALS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Copier(torch.device(target.device)).copy_tree(tensors(probe_dtype(target)))
                target.synchronize()
        except Exception as error:
            text = str(error) if isinstance(error, WrongCopy) else one_line(error)
            step = f"make {name} work ({kernels}); until then, {consequence}"
            yield Fact(f"prerequisite {name}", False, text.removeprefix(f"prerequisite {name}: "), step=step)
        else:
            yield Fact(f"prerequisite {name}", True, "works")
