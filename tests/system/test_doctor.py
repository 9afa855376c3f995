"""``conformance targets`` and ``doctor`` on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.support.cli_process import Run

Cli = Callable[..., Run]


def test_targets_are_listed_and_drafted(cli: Cli, tmp_path: Path) -> None:
    assert re.search(r"^cpu: device cpu, module torch, modes eager", cli("targets").out, re.M)
    assert cli("targets", "--new", "cpu").code == 0
    assert cli("doctor", "--target", "cpu.toml").code == 0
    second_draft = cli("targets", "--new", "cpu")
    assert (second_draft.code, "exists already" in second_draft.err) == (2, True)


def test_doctor_finds_nothing_missing_on_the_cpu(cli: Cli) -> None:
    run = cli("doctor", "--target", "cpu")
    assert (run.code, run.out.splitlines()[-1]) == (0, "nothing is missing")
