"""Property ``error-inputs``: a module raises the CPU's exception for invalid arguments."""

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
from conformance.samples.copies import make_copier
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the module."""
    if getattr(subject.info, "module_error_inputs_func", None) is None:
        return []
    return common.first_dtype_only(target, subject)


@register(
    "error-inputs",
    subject_kind="module",
    statement="Invalid arguments raise the CPU's exception type, with the message that torch's "
    "database lists.",
    documentation="nn.html",
    basis="parity",
    ground="No page names the errors; the inputs come from torch's test database",
    level="full",
    applies=dtypes_to_check,
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the module with each error input of torch's database and compare the exception with the CPU's."""
    dtype = common.dtype_under_test(recorder)
    for training in (True, False) if subject.info.train_and_eval_differ else (True,):
        seed = torch_testing_internals.seed_for("module errors", subject.name, str(training))
        items = torch_testing_internals.module_error_inputs(subject.info, dtype, training=training, seed=seed)
        recorder.samples(len(items), len(items))
        for index, item in enumerate(items):
            _check_error_input(target, recorder, subject, item, index, training)


def _check_error_input(
    target: Target, recorder: Recorder, subject: Subject, item: Any, index: int, training: bool
) -> None:
    """Call the module with one error input, and compare the exception with the CPU's exception."""
    arguments = item.module_error_input

    def call_on_device(device: torch.device) -> Any:
        args, kwargs = arguments.constructor_input.args, dict(arguments.constructor_input.kwargs)
        module = subject.info.module_cls(*args, **kwargs).to(device).train(training)
        if arguments.forward_input is not None:
            args, kwargs = make_copier(target, device).copy_tree(
                (arguments.forward_input.args, arguments.forward_input.kwargs)
            )
            # Return the result, so that a lazy device must compute it and raise the error.
            return module(*args, **kwargs)
        return module

    forward_input = arguments.forward_input
    call_arguments = () if forward_input is None else (forward_input.args, forward_input.kwargs)
    with torch_testing_internals.torch_seeded(index):
        undeclared = undeclared_dtypes.undeclared_dtypes_of_call(
            target, lambda: call_on_device(torch.device("cpu")), call_arguments
        )
    if undeclared:
        recorder.omit_for_dtypes(undeclared)
        return
    reference = attempt(lambda: call_on_device(torch.device("cpu"))).error
    outcome = common.attempt_on_target(target, lambda: call_on_device(target.torch_device))
    label = f"error input {index} ({arguments.desc or 'without a description'})"
    error = outcome.error
    if reference is None:
        recorder.note(f"{label} is not an error on the CPU in this release")
        return
    if error is None:
        recorder.compared(1)
        text = f"{label} raised nothing, but the CPU raises {one_line(reference)}"
        recorder.fail(Kind.ERROR_TYPE, text, sample=index)
        return
    text = f"{label} raised {one_line(error)}, but the CPU raises {one_line(reference)}"
    if fact(recorder, isinstance(error, type(reference)), Kind.ERROR_TYPE, text, sample=index):
        expected = item.error_regex
        if re.search(expected, str(reference)) is None:
            expected = re.escape(str(reference).splitlines()[0])
        text = f"{label} raised {one_line(error)}; expected a message that matches {expected!r}."
        fact(recorder, re.search(expected, str(error)) is not None, Kind.MESSAGE, text, sample=index)
