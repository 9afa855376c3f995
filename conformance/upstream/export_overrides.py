"""Export deviations as a Python file that adds decorators to the entries of torch's databases.

The file contains data and a short function. Every string is written with ``repr``, so that a message of a
backend cannot become code.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.plan.levels.manifest import minor_of
from conformance.upstream.exported_deviations import LegExport, MatchedDeviation, NotExported

_TABLES = {"operator": "OP_OVERRIDES", "module": "MODULE_OVERRIDES", "optimizer": "OPTIMIZER_OVERRIDES"}

_APPLY = '''

def apply():
    """Add the decorators to torch's databases; a second call adds nothing."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db

    for table, database, name in (
        (OP_OVERRIDES, op_db, lambda info: info.full_name),
        (MODULE_OVERRIDES, module_db, lambda info: info.name),
        (OPTIMIZER_OVERRIDES, optim_db, lambda info: info.name),
    ):
        for info in database:
            new = table.get(name(info), [])
            if not any(entry in info.decorators for entry in new):
                info.decorators = (*info.decorators, *%s)


apply()
'''

#: A test of a renamed PrivateUse1 device may look up decorators by either name. From this release on,
#: ``device_type`` accepts a list; before, every decorator needs a copy for the other name.
_FIRST_WITH_LISTS = (2, 14)
_DEVICES = """DEVICES = [DEVICE]
if torch._C._get_privateuse1_backend_name() == DEVICE:
    DEVICES.append("privateuse1")"""
_COPIES = """

def _with_copies(entries):
    return entries + [
        DecorateInfo(
            entry.decorators, entry.cls_name, entry.test_name, device_type=device_type, dtypes=entry.dtypes
        )
        for device_type in DEVICES[1:]
        for entry in entries
    ]
"""


def overrides_file(exported: LegExport, source: str) -> str:
    """Return the text of a Python file. Importing the file decorates the tests of all exported deviations."""
    has_lists = minor_of(exported.torch) >= _FIRST_WITH_LISTS
    lines = header_lines(exported, source, "Known deviations", ["import unittest", "", "import torch"])
    lines += [
        "from torch.testing._internal.opinfo.core import DecorateInfo",
        "",
        f"DEVICE = {exported.device!r}",
        *_DEVICES.splitlines(),
    ]
    lines += [
        "",
        "#: The results behind the entries: verdict, kinds of failure, first message.",
        "RESULTS = {",
    ]
    for each in exported.deviations:
        lines.append(f"    {str(each.id)!r}: ({each.verdict!r}, {each.kinds!r}, {each.message!r}),")
    lines.append("}")
    for kind, table in _TABLES.items():
        lines += ["", f"{table} = {{"]
        matched = [each for each in exported.matched if each.test.kind == kind]
        lines += _database_lines(matched, "DEVICES" if has_lists else "DEVICE")
        lines.append("}")
    apply = _APPLY % "new" if has_lists else _COPIES + _APPLY % "_with_copies(new)"
    return "\n".join(lines) + "\n" + apply + not_exported_comment(exported.not_exported)


def _database_lines(matched: Sequence[MatchedDeviation], device_type: str) -> list[str]:
    """Return the lines for the entries of one database. Dtypes with the same decorator share one line."""
    grouped: dict[str, dict[tuple[str, str, str], list[str | None]]] = {}
    for each in matched:
        decorator = "unittest.expectedFailure"
        if each.deviation.ends_process:
            decorator = f"unittest.skip({each.deviation.reason!r})"
        key = (each.test.owner, each.test.name, decorator)
        grouped.setdefault(each.subject, {}).setdefault(key, []).append(each.dtype)
    lines = []
    for subject in sorted(grouped):
        lines.append(f"    {subject!r}: [")
        for (owner, name, decorator), dtypes in grouped[subject].items():
            arguments = f"{decorator}, {owner!r}, {name!r}, device_type={device_type}"
            named = sorted({f"torch.{dtype}" for dtype in dtypes if dtype is not None})
            if named and None not in dtypes:
                arguments += f", dtypes=({', '.join(named)},)"
            lines.append(f"        DecorateInfo({arguments}),")
        lines.append("    ],")
    return lines


def header_lines(exported: LegExport, source: str, title: str, imports: list[str]) -> list[str]:
    """Return the first lines of an exported file: its title and its imports."""
    text = f"{title} of device {exported.device} on torch {exported.torch}, from the run {source}."
    return [
        repr(text),
        "",
        "# Written by `conformance export`; import it before upstream's tests.",
        "",
        *imports,
    ]


def not_exported_comment(not_exported: Sequence[NotExported]) -> str:
    """Return comment lines that list the results that are not exported."""
    if not not_exported:
        return "\n# Every deviation of the run is exported.\n"
    lines = [f"\n# Not exported: {len(not_exported)} results."]
    return "\n".join([*lines, *(f"# {each.id}: {each.reason}" for each in not_exported)]) + "\n"
