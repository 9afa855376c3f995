"""``conformance export``: write the known deviations of a run as input of PyTorch's own tests."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

from conformance.report import output_files

_FORMS = ("op-overrides", "skips", "dtypes")


def add_parser(commands: Any) -> None:
    """Add the command ``export`` to the command line."""
    parser = commands.add_parser(
        "export",
        help="write a run's deviations as input of PyTorch's own tests",
        description=(
            "Write the deviations of a run for PyTorch's own tests: as decorators of the entries of its "
            "databases (op-overrides), as names of tests (skips), or as the unsupported dtypes of operators "
            "(dtypes). Results without a matching test are counted and listed in the file."
        ),
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("--form", choices=_FORMS, required=True)
    parser.add_argument("--mode", default="eager", help="mode of the results (default: eager)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the file, and print the number of exported results and the reasons why other results are not
    exported.
    """
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

    from conformance.upstream import export_dtypes, export_overrides, export_test_names, exported_deviations
    from conformance.upstream.matching_tests import Databases

    leg = exported_deviations.leg_to_export(output_files.read_legs(arguments.folder), arguments.mode)
    databases = Databases.load()
    exported = exported_deviations.export_leg(leg, databases)
    source, not_exported = exported_deviations.one_line(arguments.folder.name), exported.not_exported
    if arguments.form == "dtypes":
        pairs, other_deviations = export_dtypes.refused_dtypes(leg, databases)
        text, not_exported = (
            export_dtypes.dtypes_file(exported, pairs, other_deviations, source),
            tuple(other_deviations),
        )
        counts = f"{len(pairs)} dtypes of {len({operator for operator, _ in pairs})} operators"
    else:
        decorator_text = export_overrides.overrides_file if arguments.form == "op-overrides" else None
        text = (
            decorator_text(exported, source)
            if decorator_text is not None
            else export_test_names.test_list(exported, databases, source)
        )
        tests = {(each.test.owner, each.test.name) for each in exported.matched}
        counts = f"{len(exported.deviations)} deviations in {len(tests)} test methods"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    print(f"{arguments.output}: {counts}; {len(not_exported)} results are not exported")
    for reason, count in Counter(each.reason for each in not_exported).most_common():
        print(f"  {count}: {reason}")
    return 0
