"""Refusals: the exceptions of a target that are a declared, clean "no"."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from conformance.model.id_patterns import matches

if TYPE_CHECKING:
    from conformance.model.verdicts import Result, ResultId
    from conformance.target.target import Target


def reason(target: Target, result_id: ResultId) -> str | None:
    """Return the reason for which the target file declares the result unsupported, or None if it does not."""
    text = str(result_id)
    for pattern, why in target.unsupported.items():
        if matches(pattern, text):
            return why
    return None


#: Internal assertions of torch that are its answer for a backend that does not have something.
_ANSWERS = ("is not a DeviceAllocator",)  # statistics of an allocator that keeps none


def clean(exception: BaseException) -> bool:
    """Return whether an exception is a clean refusal: NotImplementedError or RuntimeError, raised on purpose.

    Running out of memory, recursing too deep and failed internal assertions are RuntimeErrors too; they are
    accidents, not answers, but for those by which torch answers for a backend. DLPack refuses with a
    BufferError.
    """
    import torch

    if isinstance(exception, (torch.OutOfMemoryError, RecursionError)):
        return False
    if not isinstance(exception, (NotImplementedError, RuntimeError, BufferError)):
        return False
    text = str(exception)
    return "INTERNAL ASSERT FAILED" not in text or any(answer in text for answer in _ANSWERS)


def absent(exception: BaseException) -> bool:
    """Return whether an exception says that a module has no such function or class:
    ``torch.my_device.Stream``.
    """
    return isinstance(exception, AttributeError) and isinstance(exception.obj, types.ModuleType)


def without(lacking: Sequence[str]) -> str:
    """Return the words for capabilities that are not declared, as the beginning of a sentence."""
    names = ", ".join(lacking)
    return f"capability {names} is" if len(lacking) == 1 else f"capabilities {names} are"


def classify(
    target: Target, result_id: ResultId, exception: BaseException, lacking: Sequence[str] = ()
) -> Literal["declared", "undeclared"]:
    """Decide whether a target may refuse a result with this exception.

    ``declared`` means the verdict ``unsupported``: the target file names the result as unsupported, or does
    not declare a capability that it needs (``lacking``), *and* the error is clean. A missing API is a clean
    answer too if a capability is not declared. Everything else, NotImplementedError included, is
    ``undeclared`` and thus a failure of kind ``refused`` or ``exception``.
    """
    if lacking and (clean(exception) or absent(exception)):
        return "declared"
    return "declared" if clean(exception) and reason(target, result_id) is not None else "undeclared"


def why(target: Target, result_id: ResultId, lacking: Sequence[str] = ()) -> str | None:
    """Return the declared reason for which a result may be refused, or None if nothing declares it."""
    if lacking:
        return f"{without(lacking)} not declared"
    return reason(target, result_id)


def judged(target: Target, result: Result, lacking: Sequence[str]) -> Result:
    """Return a result adjusted to what the target declares.

    A result that works although it is not declared receives a note; if nothing was compared, it shows nothing
    and is ``unsupported`` if a capability is not declared. A result that was refused throughout, with the
    words by which torch refuses, is ``unsupported`` if a capability is not declared or the result is declared
    unsupported; wrong values, crashes and errors of other types stay as they are.
    """
    from conformance.model.verdicts import Kind, Verdict

    if result.verdict is Verdict.PASS:
        reasons = why(target, result.id, lacking)
        if lacking and not result.comparisons:
            return dataclasses.replace(
                result, verdict=Verdict.UNSUPPORTED, notes=[*result.notes, str(reasons)]
            )
        if lacking:
            return dataclasses.replace(result, notes=[*result.notes, f"works although {reasons}"])
        if reasons is not None:
            text = f"works although declared unsupported: {reasons}"
            return dataclasses.replace(result, notes=[*result.notes, text])
    elif result.verdict is Verdict.FAIL and {f.kind for f in result.failures} == {Kind.REFUSED}:
        reasons = why(target, result.id, lacking)
        if reasons is None:
            return result
        text = f"{reasons}: {result.failures[0].message}"
        return dataclasses.replace(
            result, verdict=Verdict.UNSUPPORTED, failures=[], failure_count=0, notes=[*result.notes, text]
        )
    return result
