"""Read lists of test names, one test per line, in the formats that test runners print.

``TestCommonHPU.test_out_add_hpu_float32``, ``test_ops.py::TestCommonHPU::test_out_add_hpu_float32`` and
``test_out_add_hpu_float32 (__main__.TestCommonHPU)`` name the same test. The text after ``#`` is the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from conformance.target.file import DTYPES
from conformance.upstream.export_test_names import MODES
from conformance.upstream.matching_tests import Databases, UpstreamMethod, covering_properties
from conformance.upstream.upstream_list import ListedTest, Listing

_DOTTED = re.compile(r"(?:\S*[/:.])?(?P<owner>\w+)(?:\.|::)(?P<test>test\w*)")
_PRINTED = re.compile(r"(?P<test>test\w*) \((?:[\w.]+\.)?(?P<owner>\w+)\)")
_SHOWN = 120


def read_test_list(text: str, name: str, device: str, databases: Databases) -> Listing:
    """Return the tests of a list.

    Args:
        text: the text of the list.
        name: the name of its file, for messages.
        device: the device, whose name is a part of each test name.
        databases: the entries whose names are parts of the test names.
    """
    entries, problems = [], []
    names, owners = _entry_name_by_test_name(databases), _methods_by_class()
    for number, line in enumerate(text.splitlines(), 1):
        test_text, _, reason = line.partition("#")
        test_text = test_text.strip()
        if not test_text:
            continue
        match = _DOTTED.fullmatch(test_text) or _PRINTED.fullmatch(test_text)
        parsed = (
            None if match is None else _parse_test_name(match["owner"], match["test"], device, owners, names)
        )
        if parsed is None:
            problems.append(f"{name}:{number}: {test_text[:_SHOWN]!r} {_reason_not_read(match, owners)}")
        else:
            test, subject, dtype = parsed
            # In lists that this suite writes, the decision and a colon precede the reason.
            reason = re.sub(r"^\s*(skip|expectedFailure):", "", reason).strip()
            entries.append(ListedTest(number, test, subject, (dtype,) if dtype else (), reason))
    return Listing(tuple(entries), tuple(problems))


def _methods_by_class() -> Mapping[str, list[UpstreamMethod]]:
    """Return the methods of each class, the longest names first."""
    methods_by_owner: dict[str, list[UpstreamMethod]] = {}
    for test in sorted(covering_properties(), key=lambda test: -len(test.name)):
        methods_by_owner.setdefault(test.owner, []).append(test)
    return methods_by_owner


def _entry_name_by_test_name(databases: Databases) -> Mapping[str, str]:
    """Return the database entries by their names in test names (underscores instead of dots)."""
    entry_names = {
        name.replace(".", "_"): name
        for name in (*databases.operators, *databases.modules, *databases.optimizers)
    }
    for module in databases.modules:
        entry_names |= {module.replace(".", "_") + mode: module for mode in MODES}
    return entry_names


def _device_generic_class(name: str, owners: Mapping[str, list[UpstreamMethod]]) -> str | None:
    """Return the test class from which a device-specific class was generated, or None if it is unknown."""
    starts = [name[:end] for end in range(len(name), 0, -1) if name[end:] == name[end:].upper()]
    return next((start for start in starts if start in owners), None)


def _parse_test_name(
    owner: str, test: str, device: str, owners: Mapping[str, list[UpstreamMethod]], names: Mapping[str, str]
) -> tuple[UpstreamMethod, str, str] | None:
    """Return the method, the entry and the dtype of a test, or None if the name does not match any.

    The dtype is empty if the test has none.
    """
    base = _device_generic_class(owner, owners)
    for method in owners.get(base or "", []):
        if not test.startswith(f"{method.name}_"):
            continue
        rest = test[len(method.name) + 1 :]
        for dtype in ("", *DTYPES):
            if dtype and not rest.endswith(f"_{dtype}"):
                continue
            stem = rest.removesuffix(f"_{dtype}") if dtype else rest
            for device_name in dict.fromkeys((device, "privateuse1", owner[len(base or "") :].lower())):
                subject = (
                    names.get(stem.removesuffix(f"_{device_name}"))
                    if stem.endswith(f"_{device_name}")
                    else None
                )
                if subject is not None:
                    return method, subject, dtype
    return None


def _reason_not_read(match: re.Match[str] | None, owners: Mapping[str, list[UpstreamMethod]]) -> str:
    if match is None:
        return "is not the name of a test"
    if _device_generic_class(match["owner"], owners) is None:
        return "belongs to a test class that no property of the suite covers for each database entry"
    return "matches no method, entry and dtype of torch's databases for this device"
