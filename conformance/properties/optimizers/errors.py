"""Arguments that an optimizer must refuse."""

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
from conformance.samples.copies import Copier
from conformance.samples.operators import dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.info.optim_error_inputs_func is None:
        return []
    return common.first_dtype(target, subject)


@register(
    "error-inputs",
    subject_kind="optimizer",
    statement="Wrong arguments raise the type of error, with the words, that torch's database lists.",
    documentation="optim.html",
    level="full",
    applies=applies,
    capabilities=("autograd",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    dtype = dtype_of(recorder.id.dtype)
    seed = torch_testing_internals.seed_for("optimizer errors", subject.name)
    items = torch_testing_internals.optimizer_error_inputs(subject.info, dtype, seed=seed)
    recorder.samples(len(items), len(items))
    for index, item in enumerate(items):
        _check_one(target, recorder, subject, item, index, dtype)


def _check_one(
    target: Target, recorder: Recorder, subject: Subject, item: Any, index: int, dtype: torch.dtype
) -> None:
    arguments = item.optimizer_error_input
    if missing := undeclared_dtypes.undeclared_among(target, arguments.params):
        recorder.left_out(missing)
        return
    device = target.torch_device

    def call() -> None:
        parameters = arguments.params
        if parameters is None:
            parameters = [torch.nn.Parameter(torch.ones(2, 2, dtype=dtype, device=device))]
        else:
            parameters = Copier(device).tree(parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            optimizer = subject.info.optim_cls(parameters, **arguments.kwargs)
            if item.error_on.name == "STEP_ERROR":
                for parameter in parameters:
                    parameter.grad = torch.rand_like(parameter)
                optimizer.step()

    raised = common.on_target(target, call).error
    what = f"error input {index} ({arguments.desc})"
    if raised is None:
        recorder.compared(1)
        text = f"{what} raised nothing; {item.error_type.__name__} is due."
        recorder.fail(Kind.ERROR_TYPE, text, sample=index)
        return
    text = f"{what} raised {one_line(raised)}; {item.error_type.__name__} is due."
    if fact(recorder, isinstance(raised, item.error_type), Kind.ERROR_TYPE, text, sample=index):
        text = f"{what} raised {one_line(raised)}; a message like {item.error_regex!r} is due."
        matched = re.search(item.error_regex, str(raised)) is not None
        fact(recorder, matched, Kind.MESSAGE, text, sample=index)
