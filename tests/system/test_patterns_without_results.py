"""If a pattern of a target file matches no result, ``conformance run`` and ``conformance doctor`` stop with
an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_process import Run

Cli = Callable[..., Run]


HEAD = 'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager"]\ndtypes = ["float32", "int64"]\n'


def unsupported_patterns(*lines: str) -> str:
    return "[unsupported]\n" + "".join(f'"{line}" = "why"\n' for line in lines)


@pytest.mark.parametrize(
    "command",
    [("run", "-k", "good0", "--level", "smoke"), ("doctor", "--extra", "tests.support.misbehaving_subjects")],
    ids=["run", "doctor"],
)
def test_run_and_doctor_reject_a_pattern_without_results(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "mine.toml").write_text(HEAD + unsupported_patterns("acts/goood0@*", "beside/good0@*"))
    done = cli(*command, "--target", "mine.toml")
    assert done.code == 2
    assert "'acts/goood0@*' matches no result (did you mean acts/good0@*" in done.err
    assert "beside/good0@*" not in done.err, (
        "the pattern matches a result of the suite, but not of level smoke"
    )
