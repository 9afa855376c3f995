"""Refusals: which exception of a target is a declared, clean "no"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from conformance.pattern import matches

if TYPE_CHECKING:
    from conformance.model import ResultId
    from conformance.target import Target


def reason(target: Target, result_id: ResultId) -> str | None:
    """Why the target file declares the result unsupported, or None where it does not."""
    text = str(result_id)
    for pattern, why in target.unsupported.items():
        if matches(pattern, text):
            return why
    return None


def clean(exception: BaseException) -> bool:
    """Whether an exception is a clean refusal: NotImplementedError or RuntimeError, raised on purpose.

    Running out of memory, recursing too deep and failed internal assertions are RuntimeErrors too; they are
    accidents, not answers.
    """
    import torch

    if isinstance(exception, (torch.OutOfMemoryError, RecursionError)):
        return False
    if not isinstance(exception, (NotImplementedError, RuntimeError)):
        return False
    return "INTERNAL ASSERT FAILED" not in str(exception)


def classify(
    target: Target, result_id: ResultId, exception: BaseException
) -> Literal["declared", "undeclared"]:
    """Whether a target may refuse a result with this exception.

    ``declared`` means the verdict ``unsupported``: the target file names the result as unsupported *and* the
    error is clean. Everything else, NotImplementedError included, is ``undeclared`` and thus a failure of
    kind ``refused`` or ``exception``.
    """
    return "declared" if clean(exception) and reason(target, result_id) is not None else "undeclared"
