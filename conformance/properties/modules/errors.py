"""Calls that a module must refuse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from conformance import torch_private
from conformance.compare import fact
from conformance.invocation import attempt, one_line
from conformance.model import Kind
from conformance.properties.modules import _common as common
from conformance.property import register
from conformance.recorder import Recorder
from conformance.subjects import Subject
from conformance.target import Target
from conformance.transfer import Copier


def applies(target: Target, subject: Subject) -> Sequence[str]:
    if getattr(subject.info, "module_error_inputs_func", None) is None:
        return []
    return common.first_dtype(target, subject)


@register(
    "error-inputs",
    subject_kind="module",
    statement="Wrong arguments raise the documented type of error with the CPU's words.",
    level="full",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    dtype = common.dtype_under_test(recorder)
    for training in (True, False) if subject.info.train_and_eval_differ else (True,):
        seed = torch_private.seed_for("module errors", subject.name, str(training))
        found = torch_private.module_error_inputs(subject.info, dtype, training=training, seed=seed)
        recorder.samples(len(found), len(found))
        for index, item in enumerate(found):
            _check_one(target, recorder, subject, item, index, dtype, training)


def _check_one(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    item: Any,
    index: int,
    dtype: torch.dtype,
    training: bool,
) -> None:
    made = item.module_error_input
    copier = Copier(common.device_of(target))

    def call() -> None:
        args, kwargs = made.constructor_input.args, dict(made.constructor_input.kwargs)
        module = subject.info.module_cls(*args, **kwargs).to(target.device, dtype).train(training)
        if made.forward_input is not None:
            args, kwargs = copier.tree((made.forward_input.args, made.forward_input.kwargs))
            module(*args, **kwargs)

    outcome = common.on_target(target, call)
    what = f"error input {index} ({made.desc or 'without a description'})"
    raised = outcome.error
    if raised is None:
        recorder.compared(1)
        recorder.fail(Kind.ERROR_TYPE, f"{what} raised nothing where {_names(item)} is due.", sample=index)
        return
    text = f"{what} raised {one_line(raised)} where {_names(item)} is due."
    if fact(recorder, isinstance(raised, item.error_type), Kind.ERROR_TYPE, text, sample=index):
        matched = attempt(lambda: re.search(item.error_regex, str(raised)))
        text = f"{what} raised {one_line(raised)} where the message {item.error_regex!r} is due."
        fact(recorder, matched.value is not None, Kind.MESSAGE, text, sample=index)


def _names(item: Any) -> str:
    kinds = item.error_type if isinstance(item.error_type, tuple) else (item.error_type,)
    return " or ".join(kind.__name__ for kind in kinds)
