"""Classify exceptions of a target: declared refusal, or failure."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from conformance.model.id_patterns import matches

if TYPE_CHECKING:
    from conformance.model.verdicts import Result, ResultId
    from conformance.target.target import Target


def unsupported_reason(target: Target, result_id: ResultId) -> str | None:
    """Return the reason for which the target file declares the result unsupported, or None."""
    text = str(result_id)
    for pattern, declared_reason in target.unsupported.items():
        if matches(pattern, text):
            return declared_reason
    return None


#: Internal assertions by which torch reports that a backend lacks a feature.
_DELIBERATE_ASSERTIONS = ("is not a DeviceAllocator",)  # memory statistics are not implemented


def is_deliberate_error(exception: BaseException) -> bool:
    """Return whether an exception was raised on purpose: NotImplementedError, RuntimeError or BufferError.

    OutOfMemoryError, RecursionError and failed internal assertions are RuntimeErrors too, but were not raised
    on purpose. The exceptions are the assertions by which torch reports that a backend lacks a feature.
    DLPack refuses with a BufferError.
    """
    import torch

    if isinstance(exception, (torch.OutOfMemoryError, RecursionError)):
        return False
    if not isinstance(exception, (NotImplementedError, RuntimeError, BufferError)):
        return False
    text = str(exception)
    return "INTERNAL ASSERT FAILED" not in text or any(answer in text for answer in _DELIBERATE_ASSERTIONS)


def is_missing_attribute(exception: BaseException) -> bool:
    """Return whether an exception reports that a module lacks a function or class, such as
    ``torch.my_device.Stream``.
    """
    return isinstance(exception, AttributeError) and isinstance(exception.obj, types.ModuleType)


def describe_undeclared_capabilities(lacking: Sequence[str]) -> str:
    """Return ``capability NAME is`` or ``capabilities NAMES are``, the beginning of a sentence."""
    names = ", ".join(lacking)
    return f"capability {names} is" if len(lacking) == 1 else f"capabilities {names} are"


def classify(
    target: Target, result_id: ResultId, exception: BaseException, lacking: Sequence[str] = ()
) -> Literal["declared", "undeclared"]:
    """Classify an exception that a target raised instead of a result as ``declared`` or ``undeclared``.

    ``declared`` means the verdict ``unsupported``. It needs a clean error, and the target file must declare
    the result unsupported or not declare a required capability (``lacking``). A missing API is a clean error
    too if a capability is not declared. Everything else, including NotImplementedError, is ``undeclared`` and
    becomes a failure of kind ``refused`` or ``exception``.
    """
    if lacking and (is_deliberate_error(exception) or is_missing_attribute(exception)):
        return "declared"
    return (
        "declared"
        if is_deliberate_error(exception) and unsupported_reason(target, result_id) is not None
        else "undeclared"
    )


def refusal_reason(target: Target, result_id: ResultId, lacking: Sequence[str] = ()) -> str | None:
    """Return the declared reason for which the target may refuse a result, or None."""
    if lacking:
        return f"{describe_undeclared_capabilities(lacking)} not declared"
    return unsupported_reason(target, result_id)


def apply_declarations(target: Target, result: Result, lacking: Sequence[str]) -> Result:
    """Return a result with the declarations of the target applied.

    A result that passes although it is not declared gets a note. If it compared nothing and a capability is
    not declared, it becomes ``unsupported``. A result whose failures are all refusals becomes ``unsupported``
    if a capability is not declared or the result is declared unsupported. Wrong values, crashes and errors of
    other types stay as they are.
    """
    from conformance.model.verdicts import Kind, Verdict

    if result.verdict is Verdict.PASS:
        reason_text = refusal_reason(target, result.id, lacking)
        if lacking and not result.comparisons:
            return dataclasses.replace(
                result, verdict=Verdict.UNSUPPORTED, notes=[*result.notes, str(reason_text)]
            )
        if lacking:
            return dataclasses.replace(result, notes=[*result.notes, f"works although {reason_text}"])
        if reason_text is not None:
            text = f"works although declared unsupported: {reason_text}"
            return dataclasses.replace(result, notes=[*result.notes, text])
    elif result.verdict is Verdict.FAIL and {f.kind for f in result.failures} == {Kind.REFUSED}:
        reason_text = refusal_reason(target, result.id, lacking)
        if reason_text is None:
            return result
        text = f"{reason_text}: {result.failures[0].message}"
        return dataclasses.replace(
            result, verdict=Verdict.UNSUPPORTED, failures=[], failure_count=0, notes=[*result.notes, text]
        )
    return result
