"""Reading lists of tests by name, a test a line, as runners of tests print them.

``TestCommonHPU.test_out_add_hpu_float32``, ``test_ops.py::TestCommonHPU::test_out_add_hpu_float32`` and
``test_out_add_hpu_float32 (__main__.TestCommonHPU)`` name the same test. Text after ``#`` is its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from conformance.target.file import DTYPES
from conformance.upstream.export_test_names import MODES
from conformance.upstream.matching_tests import Counterpart, Databases, methods
from conformance.upstream.upstream_list import ListedTest, Listing

_DOTTED = re.compile(r"(?:\S*[/:.])?(?P<owner>\w+)(?:\.|::)(?P<test>test\w*)")
_PRINTED = re.compile(r"(?P<test>test\w*) \((?:[\w.]+\.)?(?P<owner>\w+)\)")
_SHOWN = 120


def read(text: str, name: str, device: str, known: Databases) -> Listing:
    """The tests that a list names.

    Args:
        text: of the list.
        name: of its file, for messages.
        device: its name is part of each test's.
        known: the entries that tests are named after.
    """
    entries, problems = [], []
    names, owners = _entries(known), _owners()
    for number, line in enumerate(text.splitlines(), 1):
        word, _, reason = line.partition("#")
        word = word.strip()
        if not word:
            continue
        match = _DOTTED.fullmatch(word) or _PRINTED.fullmatch(word)
        found = None if match is None else _parse(match["owner"], match["test"], device, owners, names)
        if found is None:
            problems.append(f"{name}:{number}: {word[:_SHOWN]!r} {_why(match, owners)}")
        else:
            test, subject, dtype = found
            # As written by this suite: the decision and a colon precede the reason.
            reason = re.sub(r"^\s*(skip|expectedFailure):", "", reason).strip()
            entries.append(ListedTest(number, test, subject, (dtype,) if dtype else (), reason))
    return Listing(tuple(entries), tuple(problems))


def _owners() -> Mapping[str, list[Counterpart]]:
    """The methods of each class, those with the longest names first."""
    found: dict[str, list[Counterpart]] = {}
    for test in sorted(methods(), key=lambda test: -len(test.name)):
        found.setdefault(test.owner, []).append(test)
    return found


def _entries(known: Databases) -> Mapping[str, str]:
    """Names of entries as they stand in tests, with their own."""
    found = {name.replace(".", "_"): name for name in (*known.operators, *known.modules, *known.optimizers)}
    for module in known.modules:
        found |= {module.replace(".", "_") + mode: module for mode in MODES}
    return found


def _owner(name: str, owners: Mapping[str, list[Counterpart]]) -> str | None:
    """The test class that a class for a device was made of."""
    starts = [name[:end] for end in range(len(name), 0, -1) if name[end:] == name[end:].upper()]
    return next((start for start in starts if start in owners), None)


def _parse(
    owner: str, test: str, device: str, owners: Mapping[str, list[Counterpart]], names: Mapping[str, str]
) -> tuple[Counterpart, str, str] | None:
    """The method, the entry and the dtype (an empty text if there is none) of a test."""
    base = _owner(owner, owners)
    for method in owners.get(base or "", []):
        if not test.startswith(f"{method.name}_"):
            continue
        rest = test[len(method.name) + 1 :]
        for dtype in ("", *DTYPES):
            if dtype and not rest.endswith(f"_{dtype}"):
                continue
            kept = rest.removesuffix(f"_{dtype}") if dtype else rest
            for word in dict.fromkeys((device, "privateuse1", owner[len(base or "") :].lower())):
                subject = names.get(kept.removesuffix(f"_{word}")) if kept.endswith(f"_{word}") else None
                if subject is not None:
                    return method, subject, dtype
    return None


def _why(match: re.Match[str] | None, owners: Mapping[str, list[Counterpart]]) -> str:
    if match is None:
        return "is not the name of a test"
    if _owner(match["owner"], owners) is None:
        return "is of a class that no property of the suite covers for each entry"
    return "matches no method, entry and dtype of torch's databases for this device"
