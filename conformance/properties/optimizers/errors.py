"""Property ``error-inputs``: an optimizer raises the exceptions of torch's database for invalid arguments."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import undeclared_dtypes
from conformance.framework.calls import one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.optimizers import _optimizer_checks as common
from conformance.samples.copies import make_copier
from conformance.samples.operators import dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the optimizer."""
    if subject.info.optim_error_inputs_func is None:
        return []
    return common.first_dtype_only(target, subject)


@register(
    "error-inputs",
    subject_kind="optimizer",
    statement="Invalid arguments raise the exception type, with the message, that torch's database lists.",
    documentation="optim.html",
    basis="parity",
    ground="No page names the errors; the inputs come from torch's test database",
    level="full",
    applies=dtypes_to_check,
    capabilities=("autograd",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Run each error input of torch's database on the target and compare the exception with the database."""
    dtype = dtype_of(recorder.id.dtype)
    seed = torch_testing_internals.seed_for("optimizer errors", subject.name)
    items = torch_testing_internals.optimizer_error_inputs(subject.info, dtype, seed=seed)
    recorder.samples(len(items), len(items))
    for index, item in enumerate(items):
        _check_error_input(target, recorder, subject, item, index, dtype)


def _check_error_input(
    target: Target, recorder: Recorder, subject: Subject, item: Any, index: int, dtype: torch.dtype
) -> None:
    """Construct the optimizer with one error input, and compare the exception with the database."""
    arguments = item.optimizer_error_input
    if undeclared := undeclared_dtypes.undeclared_among(target, arguments.params):
        recorder.omit_for_dtypes(undeclared)
        return
    device = target.torch_device

    def construct_and_step() -> None:
        parameters = arguments.params
        if parameters is None:
            parameters = [torch.nn.Parameter(torch.ones(2, 2, dtype=dtype, device=device))]
        else:
            parameters = make_copier(target).copy_tree(parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            optimizer = subject.info.optim_cls(parameters, **arguments.kwargs)
            if item.error_on.name == "STEP_ERROR":
                for parameter in parameters:
                    parameter.grad = torch.rand_like(parameter)
                optimizer.step()

    error = common.attempt_on_target(target, construct_and_step).error
    label = f"error input {index} ({arguments.desc})"
    if error is None:
        recorder.compared(1)
        text = f"{label} raised nothing, expected {item.error_type.__name__}."
        recorder.fail(Kind.ERROR_TYPE, text, sample=index)
        return
    text = f"{label} raised {one_line(error)}, expected {item.error_type.__name__}."
    if fact(recorder, isinstance(error, item.error_type), Kind.ERROR_TYPE, text, sample=index):
        text = f"{label} raised {one_line(error)}; expected a message that matches {item.error_regex!r}."
        matched = re.search(item.error_regex, str(error)) is not None
        fact(recorder, matched, Kind.MESSAGE, text, sample=index)
