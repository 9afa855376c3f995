"""The compile service: subprocesses, cache folder, failures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.fusion_programs import FOLDER, Program, assert_same, fusion, record, run_artifact


def program() -> Program:
    return record(lambda x, y: (x + y).relu() * 2, torch.ones(8), torch.ones(8))


def unfusable() -> dict[str, Any]:
    return record(lambda x: torch.nn.functional.dropout(x), torch.ones(8)).description


def wait(service: Any, seconds: float = 600) -> list[Any]:
    """Artifacts of everything that was asked for."""
    found, end = [], time.monotonic() + seconds
    while not service.idle():
        assert time.monotonic() < end
        found += service.poll()
        time.sleep(0.05)
    return found


def test_request_compiles_once_and_every_listener_hears(tmp_path: Path) -> None:
    requested, service = program(), fusion("service").Service(1, tmp_path)
    heard: list[Any] = []
    assert service.poll() == []
    digest = service.request(requested.description, heard.append)
    assert service.request(requested.description, heard.append) == digest
    (artifact,) = wait(service)
    assert heard == [artifact, artifact] and artifact.convention["digest"] == digest
    assert_same(requested, run_artifact(requested, artifact))
    assert [entry.name for entry in tmp_path.iterdir()] == [digest]
    # The next process finds it on disk, without a compiler process.
    second = fusion("service").Service(1, tmp_path)
    second.request(requested.description)
    assert not second._running
    assert [loaded.folder for loaded in second.poll()] == [artifact.folder]


def test_unfusable_graph_is_remembered_and_quiet(tmp_path: Path, caplog: Any) -> None:
    service = fusion("service").Service(1, tmp_path)
    digest = service.request(unfusable())
    assert wait(service) == [] and "draws random numbers" in service.failures[digest]
    assert service.request(unfusable()) is None
    assert not caplog.records and not list(tmp_path.iterdir())


def test_failed_compiler_is_logged_once(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    failing = tmp_path / "worker.py"
    failing.write_text("import sys; sys.exit('the compiler fell over')")
    monkeypatch.setattr(fusion("service"), "WORKER", failing)
    service = fusion("service").Service(1, tmp_path / "cache")
    for _ in range(2):
        service.request(program().description)
        assert wait(service) == []
    assert [record.getMessage() for record in caplog.records] == [
        "a graph stays interpreted: the compiler fell over"
    ]


def test_broken_listener_does_not_reach_the_program(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    quick = tmp_path / "worker.py"
    version = fusion("description").VERSION
    quick.write_text(
        "import pathlib, sys\nout = pathlib.Path(sys.argv[2])\n(out / 'code.so').touch()\n"
        f"(out / 'convention.json').write_text('{{\"version\": {version}}}')\n"
    )
    monkeypatch.setattr(fusion("service"), "WORKER", quick)
    service = fusion("service").Service(1, tmp_path / "cache")
    service.request(program().description, lambda artifact: 1 / 0)
    assert len(wait(service)) == 1 and "the listener for fused code" in caplog.text


def test_no_more_subprocesses_than_allowed_and_none_after_close(tmp_path: Path, monkeypatch: Any) -> None:
    slow = tmp_path / "worker.py"
    slow.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(fusion("service"), "WORKER", slow)
    service = fusion("service").Service(2, tmp_path / "cache")
    for size in range(2, 6):
        service.request(record(lambda x: x + 1, torch.ones(size)).description)
    running = [job.process for job in service._running]
    assert len(running) == 2 and all(process.poll() is None for process in running)
    service.close()
    assert all(process.poll() is not None for process in running)
    assert not list((tmp_path / "cache").iterdir())


def test_no_compiler_is_one_warning_and_off(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    service = fusion("service").Service(1, tmp_path)
    with pytest.warns(UserWarning, match="needs a C\\+\\+ compiler"):
        assert service.request(program().description) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert service.request(program().description) is None


@pytest.mark.parametrize("value", ["0", "none"])
def test_zero_processes_is_off_without_a_warning(value: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HPU_REFERENCE_FUSION_PROCESSES", value)
    monkeypatch.setenv("HPU_REFERENCE_FUSION_CACHE", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fusion("service").Service().request(program().description) is None


def test_forked_child_leaves_its_parents_subprocesses_alone(tmp_path: Path, monkeypatch: Any) -> None:
    slow = tmp_path / "worker.py"
    slow.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(fusion("service"), "WORKER", slow)
    service = fusion("service").Service(1, tmp_path / "cache")
    service.request(program().description)
    child = os.fork()
    if child == 0:
        service.close()
        os._exit(0 if service.request(program().description) is None and service.poll() == [] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert service._running[0].process.poll() is None
    service.close()


def test_worker_does_not_load_the_device(tmp_path: Path) -> None:
    source = tmp_path / "description.json"
    source.write_text(fusion("description").dumps(unfusable()))
    done = subprocess.run(
        [sys.executable, "-v", str(FOLDER / "worker.py"), str(source), str(tmp_path / "out")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "not fusable: aten::" in done.stderr and "draws random numbers" in done.stderr
    assert (
        "import 'habana_frameworks" not in done.stderr
        and "import 'hpu_reference_fusion.build'" in done.stderr
    )
