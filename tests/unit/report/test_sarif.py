"""``report.sarif`` writes one alert for GitHub's code scanning per cause. If the failure message names a file
of the backend, the alert is at this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.cli import main
from conformance.report import sarif
from conformance.results import document
from tests.support.sample_legs import leg


def failing_results(*rows: tuple[str, str]) -> Any:
    leg_rows = [
        {
            "id": name,
            "verdict": "fail",
            "seconds": 0.1,
            "failures": [{"kind": "exception", "message": message}],
        }
        for name, message in rows
    ]
    cases = {row["id"].rpartition("@")[0]: "fail" for row in leg_rows}
    totals = {"fail": len(leg_rows)}
    failing_leg = leg("eager", results=leg_rows, cases=cases, totals=totals, case_totals=totals, exit=1)
    return document.results_document([failing_leg | {"planned": len(leg_rows)}])


def alerts_of(results: Any, repository_root: Path) -> list[Any]:
    (run,) = sarif.sarif_log(results, repository_root)["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    return run["results"]  # type: ignore[no-any-return]


def file_and_line(alert: Any) -> tuple[str, int]:
    where = alert["locations"][0]["physicalLocation"]
    return where["artifactLocation"]["uri"], where["region"]["startLine"]


@pytest.fixture
def repository_root(tmp_path: Path) -> Path:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "scan.cpp").write_text("")
    (tmp_path / "ops.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at csrc/scan.cpp:120", ("csrc/scan.cpp", 120)),
        ('\n  File "{root}/ops.py", line 7, in scan', ("ops.py", 7)),
        ("at {root}/csrc/scan.cpp:3 (and torch/other.cpp:9)", ("csrc/scan.cpp", 3)),
        ("at ../elsewhere/scan.cpp:3", ("cpu", 1)),
        ("at /usr/include/vector.h:3", ("cpu", 1)),
        ("somewhere", ("cpu", 1)),
    ],
)
def test_the_alert_is_at_a_file_of_the_backend_or_at_the_target(
    repository_root: Path, text: str, expected: tuple[str, int]
) -> None:
    message = "the call raised RuntimeError: broken " + text.format(root=repository_root)
    (alert,) = alerts_of(failing_results(("value/scan@float32", message)), repository_root)
    assert file_and_line(alert) == expected
    assert str(repository_root) not in alert["message"]["text"]
    assert "conformance repro value/scan@float32 --target cpu" in alert["message"]["text"]


def test_a_cause_is_one_alert_with_the_same_id_in_the_next_run(repository_root: Path) -> None:
    message = "the call raised RuntimeError: lost lane {}"
    now = alerts_of(
        failing_results(*[(f"value/scan{i}@float32", message.format(i)) for i in range(3)]), repository_root
    )
    later = alerts_of(
        failing_results(*[(f"value/scan{i}@float32", message.format(9 * i)) for i in range(2)]),
        repository_root,
    )
    assert len(now) == len(later) == 1
    assert now[0]["partialFingerprints"] == later[0]["partialFingerprints"]
    different_alerts = alerts_of(
        failing_results(("value/scan0@float32", "the call raised RuntimeError: another")), repository_root
    )
    assert different_alerts[0]["partialFingerprints"] != now[0]["partialFingerprints"]


def test_the_command_writes_a_sarif_file(repository_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository_root / "results.json").write_text(
        json.dumps(failing_results(("value/scan@float32", "it raised ValueError: x")))
    )
    file = repository_root / "causes.sarif"
    assert main(["report", str(repository_root), "--sarif", str(file), "--root", str(repository_root)]) == 1
    sarif = json.loads(file.read_text())
    assert sarif["version"] == "2.1.0" and len(sarif["runs"][0]["results"]) == 1


def test_a_passing_run_has_no_alert(repository_root: Path) -> None:
    assert (
        sarif.sarif_log(document.results_document([leg("eager", "pass")]), repository_root)["runs"][0][
            "results"
        ]
        == []
    )
