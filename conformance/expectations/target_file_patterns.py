"""Validate the result patterns of a target file. A pattern that matches no result is an error."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from conformance.errors import UsageError
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model.id_patterns import matches
from conformance.model.vocabulary import MODES
from conformance.plan.levels import manifest
from conformance.plan.plan import Case, Plan
from conformance.target.file import DTYPES, TargetFile

#: Maximum number of mistakes in one message.
_MAX_MISTAKES = 10
#: The subject kinds whose subjects the table ``[operators]`` of a target file must not list. The table may
#: list subjects of all other kinds, including kinds of extra modules.
_WITHOUT_DTYPES = ("optimizer", "device", "api")


def check_target_file_patterns(file: TargetFile, own_plan: Callable[[], Plan]) -> None:
    """Raise UsageError if a pattern of ``[unsupported]`` or a table of ``[operators]`` matches nothing.

    Each may match any result of the suite, not only a result of this target. These results are searched, in
    this order: the manifest (all modes, levels and torch minors), the plan of the target, which ``own_plan``
    returns, and all results on this torch. The manifest lacks the results of an extra module or of an unknown
    torch.

    A pattern may name any dtype of torch if the result has a dtype of torch, because the CPU's dtypes vary
    with torch.
    """
    patterns, names = list(file.unsupported), list(file.dtype_overrides)
    if not patterns and not names:
        return
    ids: list[str] = []
    subjects: set[str] = set()
    for source in (_manifest_plan, own_plan, _full_plan):
        plan = source()
        cases = _cases_by_dtypes(plan)
        patterns = [pattern for pattern in patterns if not _matches_any(pattern, cases)]
        subjects.update(case.subject for case in plan.cases if case.kind not in _WITHOUT_DTYPES)
        names = [name for name in names if name not in subjects]
        if not patterns and not names:
            return
        ids += plan.result_ids()
    mistakes = list(_unmatched_pattern_errors(ResultIdIndex(ids), patterns, subjects, names))
    more = f"; and {len(mistakes) - _MAX_MISTAKES} more" if len(mistakes) > _MAX_MISTAKES else ""
    raise UsageError(
        f"target file {file.path}: {'; '.join(mistakes[:_MAX_MISTAKES])}{more}; remove or rename them, or "
        "name the module that has them with --extra"
    )


def _cases_by_dtypes(plan: Plan) -> dict[tuple[str, ...], ResultIdIndex]:
    """Return the cases of a plan by the dtype words that a pattern may contain to match them.

    If a case has a dtype of torch, the pattern may contain any dtype of torch. For a case with other words,
    such as ``any``, the pattern may contain these words.
    """
    by_words: dict[tuple[str, ...], list[str]] = {}
    for case in plan.cases:
        other_dtypes = tuple(dtype for dtype in case.dtypes if dtype not in DTYPES)
        for dtype_names in (other_dtypes, DTYPES if len(other_dtypes) < len(case.dtypes) else ()):
            if dtype_names:
                by_words.setdefault(dtype_names, []).append(case.id)
    return {dtype_names: ResultIdIndex(cases) for dtype_names, cases in by_words.items()}


def _matches_any(pattern: str, cases: dict[tuple[str, ...], ResultIdIndex]) -> bool:
    """Return True if a pattern matches a case.

    The pattern has exactly one ``/`` and one ``@``, so the parts between them are matched separately.
    """
    case, _, dtype = pattern.partition("@")
    return any(
        any(matches(dtype, dtype_name) for dtype_name in dtype_names) and index.matches_any_id(case)
        for dtype_names, index in cases.items()
    )


def _unmatched_pattern_errors(
    index: ResultIdIndex, patterns: list[str], subjects: set[str], names: list[str]
) -> Iterator[str]:
    for pattern in patterns:
        yield f"unsupported {pattern!r} matches no result{_suggestion_text(index.nearest_ids(pattern))}"
    for name in names:
        suggestions = difflib.get_close_matches(name, sorted(subjects), n=3, cutoff=0.5)
        yield f"operators.{name} is not the name of a checked operator{_suggestion_text(suggestions)}"


def _suggestion_text(suggestions: list[str]) -> str:
    return f" (did you mean {' or '.join(suggestions)}?)" if suggestions else ""


def _manifest_plan() -> Plan:
    """Return all results of the committed manifest, of every torch minor and in every mode."""
    if not manifest.PATH.is_file():
        return Plan([])
    return Plan(
        [
            Case(statement.kind, statement.name, subject, group.dtypes)
            for statement in manifest.load().statements
            for group in statement.groups
            for subject in group.subjects
        ]
    )


def _full_plan() -> Plan:
    """Return all results of the suite on this torch for an unrestricted target. Imports torch."""
    from conformance.plan import plan
    from conformance.target.unrestricted import unrestricted_target

    return plan.build_plan(unrestricted_target(), "full", MODES)
