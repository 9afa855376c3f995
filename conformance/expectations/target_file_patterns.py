"""Words of a target file that speak of results: those that speak of nothing are refused, not passed over."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from conformance.errors import UsageError
from conformance.expectations.index import Index
from conformance.model.id_patterns import matches
from conformance.model.vocabulary import MODES
from conformance.plan.levels import manifest
from conformance.plan.plan import Case, Plan
from conformance.target.file import DTYPES, TargetFile

#: Mistakes that one message names.
_SHOWN = 10
#: Kinds whose subjects no table of ``[operators]`` speaks of; it may speak of those of extra modules.
_WITHOUT_DTYPES = ("optimizer", "device", "api")


def check(file: TargetFile, own_plan: Callable[[], Plan]) -> None:
    """Raise UsageError for patterns of ``[unsupported]`` and tables of ``[operators]`` that name nothing.

    All that the suite has counts, not only what is due for this target: all modes and levels, every torch
    that the manifest knows, and all dtypes of a subject that has any, since the CPU's dtypes vary with torch.
    So the manifest comes first. ``own_plan`` makes that of the target for what the manifest lacks: an extra
    module, or an unknown torch.
    """
    patterns, names = list(file.unsupported), list(file.dtype_overrides)
    if not patterns and not names:
        return
    ids: list[str] = []
    subjects: set[str] = set()
    for source in (_committed, own_plan, _installed):
        plan = source()
        cases = _by_dtype(plan)
        patterns = [pattern for pattern in patterns if not _names_any(pattern, cases)]
        subjects.update(case.subject for case in plan.cases if case.kind not in _WITHOUT_DTYPES)
        names = [name for name in names if name not in subjects]
        if not patterns and not names:
            return
        ids += plan.result_ids()
    words = list(_mistakes(Index(ids), patterns, subjects, names))
    more = f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    raise UsageError(
        f"target file {file.path}: {'; '.join(words[:_SHOWN])}{more}; remove or rename them, or name the "
        "module that has them with --extra"
    )


def _by_dtype(plan: Plan) -> dict[tuple[str, ...], Index]:
    """Cases by the dtype words that a pattern may name: all dtypes if a case has any, else its own words."""
    by_words: dict[tuple[str, ...], list[str]] = {}
    for case in plan.cases:
        words_of_case = tuple(dtype for dtype in case.dtypes if dtype not in DTYPES)
        for words in (words_of_case, DTYPES if len(words_of_case) < len(case.dtypes) else ()):
            if words:
                by_words.setdefault(words, []).append(case.id)
    return {words: Index(cases) for words, cases in by_words.items()}


def _names_any(pattern: str, cases: dict[tuple[str, ...], Index]) -> bool:
    """Return True if a pattern matches a case. It has one ``/`` and one ``@``, so its parts match alone."""
    case, _, dtype = pattern.partition("@")
    return any(
        any(matches(dtype, word) for word in words) and index.matches(case) for words, index in cases.items()
    )


def _mistakes(index: Index, patterns: list[str], subjects: set[str], names: list[str]) -> Iterator[str]:
    for pattern in patterns:
        yield f"unsupported {pattern!r} matches no result{_meant(index.nearest(pattern))}"
    for name in names:
        near = difflib.get_close_matches(name, sorted(subjects), n=3, cutoff=0.5)
        yield f"operators.{name} is no operator that is checked{_meant(near)}"


def _meant(near: list[str]) -> str:
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _committed() -> Plan:
    """All that the committed manifest knows, of every torch and in every mode."""
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


def _installed() -> Plan:
    """All that the suite has on this torch for a target that can do everything. Imports torch."""
    from conformance.plan import plan
    from conformance.target.unrestricted import neutral

    return plan.build(neutral(), "full", MODES)
