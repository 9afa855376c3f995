"""``conformance export``: a run's known deviations in the terms of PyTorch's own tests."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

from conformance.report import output_files

_FORMS = ("op-overrides", "skips", "dtypes")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "export",
        help="write a run's deviations in the terms of PyTorch's own tests",
        description=(
            "Write the deviations of a run for PyTorch's own tests: as decorators of the entries of its "
            "databases (op-overrides), as names of tests (skips), or as the dtypes that operators lack "
            "(dtypes). What has no counterpart there is counted and listed in the file."
        ),
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("--form", choices=_FORMS, required=True)
    parser.add_argument("--mode", default="eager", help="mode of the results (default: eager)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the file, and print what is in it and what is not."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

    from conformance.upstream import export_dtypes, export_overrides, export_test_names, exported_deviations
    from conformance.upstream.matching_tests import Databases

    leg = exported_deviations.leg_of(output_files.read(arguments.folder), arguments.mode)
    known = Databases.load()
    found = exported_deviations.export(leg, known)
    source, left = exported_deviations.brief(arguments.folder.name), found.left
    if arguments.form == "dtypes":
        pairs, others = export_dtypes.lacking(leg, known)
        text, left = export_dtypes.text(found, pairs, others, source), tuple(others)
        said = f"{len(pairs)} dtypes of {len({operator for operator, _ in pairs})} operators"
    else:
        of = export_overrides.decorators if arguments.form == "op-overrides" else None
        text = of(found, source) if of is not None else export_test_names.text(found, known, source)
        tests = {(each.test.owner, each.test.name) for each in found.placed}
        said = f"{len(found.deviations)} deviations in {len(tests)} test methods"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    print(f"{arguments.output}: {said}; {len(left)} results are not exported")
    for reason, count in Counter(each.reason for each in left).most_common():
        print(f"  {count}: {reason}")
    return 0
