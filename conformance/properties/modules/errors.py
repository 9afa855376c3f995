"""Calls that a module must refuse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import undeclared_dtypes
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.modules import _module_checks as common
from conformance.samples.copies import Copier
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if getattr(subject.info, "module_error_inputs_func", None) is None:
        return []
    return common.first_dtype(target, subject)


@register(
    "error-inputs",
    subject_kind="module",
    statement="Wrong arguments raise the CPU's type of error, with the words that torch's database lists.",
    documentation="nn.html",
    level="full",
    applies=applies,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    dtype = common.dtype_under_test(recorder)
    for training in (True, False) if subject.info.train_and_eval_differ else (True,):
        seed = torch_testing_internals.seed_for("module errors", subject.name, str(training))
        items = torch_testing_internals.module_error_inputs(subject.info, dtype, training=training, seed=seed)
        recorder.samples(len(items), len(items))
        for index, item in enumerate(items):
            _check_one(target, recorder, subject, item, index, training)


def _check_one(
    target: Target, recorder: Recorder, subject: Subject, item: Any, index: int, training: bool
) -> None:
    arguments = item.module_error_input

    def call(device: torch.device) -> Any:
        args, kwargs = arguments.constructor_input.args, dict(arguments.constructor_input.kwargs)
        module = subject.info.module_cls(*args, **kwargs).to(device).train(training)
        if arguments.forward_input is not None:
            args, kwargs = Copier(device).tree((arguments.forward_input.args, arguments.forward_input.kwargs))
            # Handed out, so that a lazy device cannot take it for a value that is not needed.
            return module(*args, **kwargs)
        return module

    given = arguments.forward_input
    words = () if given is None else (given.args, given.kwargs)
    with torch_testing_internals.torch_seeded(index):
        missing = undeclared_dtypes.undeclared_dtypes_of_call(
            target, lambda: call(torch.device("cpu")), words
        )
    if missing:
        recorder.left_out(missing)
        return
    reference = attempt(lambda: call(torch.device("cpu"))).error
    outcome = common.on_target(target, lambda: call(target.torch_device))
    what = f"error input {index} ({arguments.desc or 'without a description'})"
    raised = outcome.error
    if reference is None:
        recorder.note(f"{what} is not an error on the CPU in this release")
        return
    if raised is None:
        recorder.compared(1)
        text = f"{what} raised nothing, but the CPU raises {one_line(reference)}"
        recorder.fail(Kind.ERROR_TYPE, text, sample=index)
        return
    text = f"{what} raised {one_line(raised)}, but the CPU raises {one_line(reference)}"
    if fact(recorder, isinstance(raised, type(reference)), Kind.ERROR_TYPE, text, sample=index):
        expected = item.error_regex
        if re.search(expected, str(reference)) is None:
            expected = re.escape(str(reference).splitlines()[0])
        text = f"{what} raised {one_line(raised)}; a message like {expected!r} is due."
        fact(recorder, re.search(expected, str(raised)) is not None, Kind.MESSAGE, text, sample=index)
