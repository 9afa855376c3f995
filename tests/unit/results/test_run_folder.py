"""``results.run_folder`` rejects an output folder in which a restricted run would replace a broader run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageError
from conformance.plan.run_request import RunRequest
from conformance.report import output_files
from conformance.results import run_folder
from conformance.target import file as target_file
from tests.support.sample_legs import leg as make_leg


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        ({}, {"select": "add"}, True),
        ({}, {"level": "core"}, True),
        ({}, {}, False),
        ({"level": "core"}, {}, False),
        ({"level": "core"}, {"select": "add"}, True),
        ({"level": "core"}, {"level": "smoke"}, True),
        ({"level": "smoke"}, {"level": "smoke", "select": "add"}, False),
        ({"selection": "add or mul"}, {"select": "add"}, False),
        ({"shard": "1/2"}, {"select": "add"}, False),
        ({"complete": False, "exit": 3}, {"select": "add"}, False),
        ({}, {"modes": ("compile",), "select": "add"}, False),
        ({}, {"modes": ("compile", "eager"), "select": "add"}, True),
        ({"target": {**make_leg()["target"], "name": "other"}}, {"select": "add"}, False),
    ],
)
def test_a_broader_run_is_not_replaced_by_a_restricted_run(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any], refused: bool
) -> None:
    output_files.write_reports(tmp_path, [make_leg(**before)])
    options: dict[str, Any] = {"modes": ("eager",), "output": tmp_path, **now}
    chosen = RunRequest(target=target_file.load("cpu"), target_argument="cpu", **options)
    if not refused:
        run_folder.check_keeps_unrestricted_run(chosen)
        return
    with pytest.raises(UsageError, match="contains an unrestricted run"):
        run_folder.check_keeps_unrestricted_run(chosen)
