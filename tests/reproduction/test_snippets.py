"""For every property, the failure on a faulty device gives a snippet that reproduces it without the suite.

On the broken device a valid snippet prints the deviation and exits with 1. On the correct device it exits
with 0.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.behaviours.behaviour import BEHAVIOURS
from conformance.properties.registry import properties
from conformance.report import html, output_files, snippet_lookup
from conformance.reproduction import script
from conformance.reproduction.inline_source import DefinitionCollector
from conformance.reproduction.literals import ExpressionWriter
from tests.reproduction import expected_failures_by_fault
from tests.reproduction.fork_server import ForkServer
from tests.support.nightly import NIGHTLY, every_nth

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
#: Time limit in seconds for shrinking. It is short, because other tests check the result of shrinking.
SECONDS = 0.5


def environment_with_fault(fault: str = "") -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "FAULT": fault}


#: Faults in functions to which torch's operator databases refer. Such a fault must be injected before the
#: databases are loaded, so each of these faults needs its own server process.
INJECTED_AT_START = {"inplace_returns_view"}


@pytest.fixture(scope="module")
def shared_server() -> Iterator[ForkServer]:
    """Return the server process that creates snippets. Several tests share the process, because its start
    takes as long as several snippets.
    """
    server = ForkServer("repro_server.py", environment_with_fault())
    yield server
    server.close()


@pytest.fixture
def server(fault: str, shared_server: ForkServer) -> Iterator[ForkServer]:
    """Return a server process that creates snippets with ``fault``. This is the shared process, or for a
    fault of INJECTED_AT_START a process that injects the fault at its start.
    """
    if fault not in INJECTED_AT_START:
        yield shared_server
        return
    early = ForkServer("repro_server.py", environment_with_fault(fault))
    yield early
    early.close()


#: Faults to test, with their results. Outside the nightly run this is every third fault with three results.
#: This suffices, because the same code writes all snippets, and ``tests/injected_faults`` tests in every run
#: that each property detects its faults.
TESTED_FAULTS = [
    (mode, fault, ids[: None if NIGHTLY else 3])
    for mode, fault, ids in every_nth(3, expected_failures_by_fault.EXPECTED_FAILURES)
]


@pytest.mark.nightly("each snippet starts two processes; the same code writes all snippets", every=2)
@pytest.mark.parametrize(
    ("mode", "fault", "ids"), TESTED_FAULTS, ids=[f"{row[1]}-{row[2][0]}" for row in TESTED_FAULTS]
)
def test_a_snippet_fails_on_the_broken_device_and_passes_on_the_correct_device(
    server: ForkServer, mode: str, fault: str, ids: list[str]
) -> None:
    request = {"mode": mode, "ids": ids, "seconds": SECONDS, "variables": environment_with_fault(fault)}
    answer = server.request(request)
    assert answer["code"] == 0, answer["output"][-2000:]
    rows = [json.loads(line) for line in answer["output"].splitlines() if line.startswith('{"id"')]
    assert [row["id"] for row in rows] == ids
    for row in rows:
        about = {key: value for key, value in row.items() if key != "text"}
        assert row["verdict"] == "fail", about
        assert row.get("shows"), about
        assert "WRONG" in row["output"], about
        assert row["healed"] == 0, about
        assert row["form"].startswith("one program") == row["id"].startswith("programs"), about
        assert "import conformance" not in row["text"] and "from conformance" not in row["text"], about


@pytest.mark.parametrize("kind", ["operator", "overload", "module", "optimizer", "device"])
def test_every_property_has_a_snippet_here(kind: str) -> None:
    property_names = {
        text.split("/")[0] for _, _, ids in expected_failures_by_fault.EXPECTED_FAILURES for text in ids
    }
    unshown = {"huge_tensors"}  # not tested, because it needs 8 GiB
    assert {entry.name for entry in properties(kind)} - unshown <= property_names


@pytest.mark.nightly("writes the scripts of all behaviours; a sample of them runs every day")
def test_every_behaviour_has_a_script() -> None:
    """The program of every behaviour can be written as a script. This test suffices, because all behaviours
    share the code of their check.
    """
    property_names = {
        text.split("/")[0] for _, _, ids in expected_failures_by_fault.EXPECTED_FAILURES for text in ids
    }
    lazy = {entry.name for entry in properties("api") if entry.modes == ("lazy",)}
    assert {entry.name for entry in properties("api")} - property_names - lazy <= set(BEHAVIOURS)
    for name, entry in BEHAVIOURS.items():
        collector = DefinitionCollector(script.REPLACED)
        writer = ExpressionWriter(collector)
        program = writer.write(entry.program)
        text = "\n".join([collector.definitions_text(), *writer.statements, program])
        compile(text, name, "exec")
        assert "import conformance" not in text and "from conformance" not in text, name


def run_repro(*arguments: str, fault: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "conformance",
        "repro",
        "--target",
        str(HERE / "broken.toml"),
        *arguments,
    ]
    return subprocess.run(command, env=environment_with_fault(fault), cwd=cwd, capture_output=True, text=True)


def test_the_command_writes_a_snippet_that_runs_alone(tmp_path: Path) -> None:
    done = run_repro(
        "value/sin@float32", "--mode", "eager", "--snippet", "s.py", fault="wrong_values", cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "verdict: fail" in done.stdout
    assert "arguments: float32[]" in done.stdout
    assert "Run it with `python s.py`" in done.stdout
    alone = {
        **environment_with_fault(),
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    for fault, code, output in (("wrong_values", 1, "WRONG: 1 of 1 elements"), ("", 0, "ok: every element")):
        run = subprocess.run(
            [sys.executable, "s.py"],
            cwd=tmp_path,
            env=alone | {"FAULT": fault},
            capture_output=True,
            text=True,
        )
        assert run.returncode == code, run.stderr
        assert output in run.stdout


def snippet_of_first_result(folder: Path) -> str | None:
    (leg,) = output_files.read_legs(folder)
    return snippet_lookup.read_snippet([folder], leg, leg["results"][0])


@pytest.mark.nightly("snippets and reports are each tested in every run")
def test_a_report_contains_the_snippet_of_a_cause(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "conformance", "run", "--target", str(HERE / "broken.toml")]
    command += ["--mode", "eager", "--level", "core", "-k", "value/sin@float32", "-n", "1"]
    done = subprocess.run(
        [*command, "--snippets", "1"],
        env=environment_with_fault("wrong_values"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    folder = tmp_path / "conformance-out"
    script = snippet_of_first_result(folder)
    assert script is not None and "torch.sin" in script and "conformance" not in script.partition("import")[2]
    assert html.embedded_json(script) in (folder / "report.html").read_text()
    # `conformance report` writes the snippet into the report. A new run without --snippets removes the
    # snippet from the folder.
    (folder / "report.html").unlink()
    subprocess.run([sys.executable, "-m", "conformance", "report", str(folder)], capture_output=True)
    assert html.embedded_json(script) in (folder / "report.html").read_text()
    subprocess.run(command, env=environment_with_fault("wrong_values"), cwd=tmp_path, capture_output=True)
    assert snippet_of_first_result(folder) is None
    assert html.embedded_json(script) not in (folder / "report.html").read_text()


@pytest.mark.nightly("every run tests snippet files, and snippets of crashes")
def test_a_crash_gives_a_snippet_file(tmp_path: Path) -> None:
    options = ("--mode", "eager", "--snippet", "s.py")
    done = run_repro("value/sin@float32", *options, fault="crash_on_large_input", cwd=tmp_path)
    assert done.returncode == 1 and "snippet: s.py" in done.stdout, done.stdout
    assert "torch.sin" in (tmp_path / "s.py").read_text() or "sin" in (tmp_path / "s.py").read_text()


@pytest.mark.nightly("crashes a process several times")
def test_a_crash_gives_the_snippet_of_the_call(tmp_path: Path) -> None:
    done = run_repro("value/sin@float32", "--mode", "eager", fault="crash_on_large_input", cwd=tmp_path)
    assert done.returncode == 1
    assert "the process died of SIGSEGV before the result" in done.stdout
    text = done.stdout.split("----- snippet -----\n")[1].split("----- end of snippet -----")[0]
    assert "torch.sin(" in text
    (tmp_path / "s.py").write_text(text)
    for fault, code in (("crash_on_large_input", -11), ("", 0)):
        run = subprocess.run(
            [sys.executable, "s.py"], cwd=tmp_path, env=environment_with_fault(fault), capture_output=True
        )
        assert run.returncode == code


def test_recorded_text_is_shown_and_never_run(tmp_path: Path) -> None:
    row = {
        "id": "value/sin@float32",
        "verdict": "fail",
        "failures": [{"kind": "value", "message": "import os; os.mkdir('made')\n\x1b[2Jgone", "sample": 0}],
    }
    leg = {"target": {"name": "other"}, "mode": "eager", "results": [row]}
    from conformance.commands import repro as command
    from conformance.model.verdicts import ResultId

    read = {"legs": [leg]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conformance.results.document.read_results", lambda path: read)
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *arguments, **_: printed.append(" ".join(map(str, arguments))))
        command.print_recorded_result(tmp_path, ResultId.parse("value/sin@float32"))
    assert "recorded: value: import os; os.mkdir('made')  [2Jgone" in printed
    assert not list(tmp_path.iterdir())
