"""Decide whether an exception of a target is a declared refusal or a failure."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance.model.id_patterns import matches

if TYPE_CHECKING:
    from conformance.model.verdicts import Result, ResultId
    from conformance.target.target import Target


def unsupported_reason(target: Target, result_id: ResultId) -> str | None:
    """Return the reason that the target file gives for declaring this result unsupported, or None."""
    text = str(result_id)
    for pattern, declared_reason in target.unsupported.items():
        if matches(pattern, text):
            return declared_reason
    return None


#: Internal assertions by which torch reports that a backend lacks a feature.
_DELIBERATE_ASSERTIONS = ("is not a DeviceAllocator",)  # memory statistics are not implemented


def is_deliberate_error(exception: BaseException) -> bool:
    """Return whether code raised an exception on purpose: NotImplementedError, RuntimeError or BufferError.

    DLPack refuses with a BufferError. OutOfMemoryError, RecursionError and failed internal assertions are
    RuntimeErrors too, but are not raised on purpose. ``_DELIBERATE_ASSERTIONS`` lists internal assertions
    that nevertheless report a missing feature.
    """
    import torch

    if isinstance(exception, (torch.OutOfMemoryError, RecursionError)):
        return False
    if not isinstance(exception, (NotImplementedError, RuntimeError, BufferError)):
        return False
    text = str(exception)
    return "INTERNAL ASSERT FAILED" not in text or any(answer in text for answer in _DELIBERATE_ASSERTIONS)


def is_missing_attribute(target: Target, exception: BaseException) -> bool:
    """Return True for an AttributeError about a name that a module does not have, such as
    ``torch.my_device.Stream``. A backend may register a class or an object as its module.
    """
    if not isinstance(exception, AttributeError):
        return False
    import torch

    device_module = getattr(torch, target.torch_device.type, None)
    return isinstance(exception.obj, types.ModuleType) or exception.obj is device_module is not None


def describe_undeclared_capabilities(undeclared_capabilities: Sequence[str]) -> str:
    """Return the beginning of a sentence: ``capability NAME is`` or ``capabilities NAMES are``."""
    names = ", ".join(undeclared_capabilities)
    return f"capability {names} is" if len(undeclared_capabilities) == 1 else f"capabilities {names} are"


class ExceptionDisposition(enum.Enum):
    """The class of an exception: declared (the verdict is ``unsupported``) or undeclared (a failure)."""

    DECLARED = "declared"
    UNDECLARED = "undeclared"


def classify_exception(
    target: Target, result_id: ResultId, exception: BaseException, undeclared_capabilities: Sequence[str] = ()
) -> ExceptionDisposition:
    """Return the disposition of an exception that a target raised instead of a result.

    An exception is declared if it is a deliberate error, and the target file either declares the result
    unsupported or does not declare a required capability (``undeclared_capabilities``). If a capability is
    not declared, an AttributeError about a missing API, a ValueError (torch raises it for an unsupported
    device type) and an error of pickle are accepted too. The verdict is then ``unsupported``. Any other
    exception is undeclared and becomes a failure of kind ``refused`` or ``exception``.
    """
    if undeclared_capabilities and (
        is_deliberate_error(exception)
        or is_missing_attribute(target, exception)
        or isinstance(exception, (ValueError, pickle.PickleError))
    ):
        return ExceptionDisposition.DECLARED
    if is_deliberate_error(exception) and unsupported_reason(target, result_id) is not None:
        return ExceptionDisposition.DECLARED
    return ExceptionDisposition.UNDECLARED


def refusal_reason(
    target: Target, result_id: ResultId, undeclared_capabilities: Sequence[str] = ()
) -> str | None:
    """Return the reason why the target may refuse a result, or None if the target must not refuse it."""
    if undeclared_capabilities:
        return f"{describe_undeclared_capabilities(undeclared_capabilities)} not declared"
    return unsupported_reason(target, result_id)


def apply_target_declarations(
    target: Target, result: Result, undeclared_capabilities: Sequence[str]
) -> Result:
    """Return a result with the declarations of the target applied.

    A result that passes gets a note if a required capability is not declared or the result is declared
    unsupported. A result that compared nothing becomes ``unsupported`` if a required capability is not
    declared. A result whose failures are all refusals becomes ``unsupported`` if a required capability is not
    declared or the result is declared unsupported. Wrong values,
    crashes and other errors are unchanged.
    """
    from conformance.model.verdicts import Kind, Verdict

    if result.verdict is Verdict.PASS:
        reason_text = refusal_reason(target, result.id, undeclared_capabilities)
        if undeclared_capabilities and not result.comparisons:
            return dataclasses.replace(
                result, verdict=Verdict.UNSUPPORTED, notes=[*result.notes, str(reason_text)]
            )
        if undeclared_capabilities:
            return dataclasses.replace(result, notes=[*result.notes, f"works although {reason_text}"])
        if reason_text is not None:
            text = f"works although declared unsupported: {reason_text}"
            return dataclasses.replace(result, notes=[*result.notes, text])
    elif result.verdict is Verdict.FAIL and {f.kind for f in result.failures} == {Kind.REFUSED}:
        reason_text = refusal_reason(target, result.id, undeclared_capabilities)
        if reason_text is None:
            return result
        text = f"{reason_text}: {result.failures[0].message}"
        return dataclasses.replace(
            result, verdict=Verdict.UNSUPPORTED, failures=[], failure_count=0, notes=[*result.notes, text]
        )
    return result
