"""Test the service that compiles graphs in subprocesses: requests, cache folder and failures."""

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
from helpers.record_and_run_fused import (
    FOLDER,
    Program,
    assert_same_buffers,
    load_fusion_module,
    record,
    run_artifact,
)


def fusable_program() -> Program:
    return record(lambda x, y: (x + y).relu() * 2, torch.ones(8), torch.ones(8))


def unfusable_description() -> dict[str, Any]:
    return record(lambda x: torch.nn.functional.dropout(x), torch.ones(8)).description


def wait_for_artifacts(service: Any, seconds: float = 600) -> list[Any]:
    """Wait until the service is idle, and return the finished artifacts."""
    finished, end = [], time.monotonic() + seconds
    while not service.is_idle():
        assert time.monotonic() < end
        finished += service.poll()
        time.sleep(0.05)
    return finished


@pytest.mark.nightly("waits for the compiler process")
def test_request_compiles_once_and_calls_every_listener(tmp_path: Path) -> None:
    requested, service = fusable_program(), load_fusion_module("service").CompilationService(1, tmp_path)
    heard: list[Any] = []
    assert service.poll() == []
    digest = service.request(requested.description, heard.append)
    assert service.request(requested.description, heard.append) == digest
    (artifact,) = wait_for_artifacts(service)
    assert heard == [artifact, artifact] and artifact.convention["digest"] == digest
    assert_same_buffers(requested, run_artifact(requested, artifact))
    assert [entry.name for entry in tmp_path.iterdir()] == [digest]
    # A second service loads the artifact from disk and starts no compiler.
    second = load_fusion_module("service").CompilationService(1, tmp_path)
    second.request(requested.description)
    assert not second._running
    assert [loaded.folder for loaded in second.poll()] == [artifact.folder]


def test_unfusable_graph_is_requested_once_and_not_logged(tmp_path: Path, caplog: Any) -> None:
    service = load_fusion_module("service").CompilationService(1, tmp_path)
    digest = service.request(unfusable_description())
    assert wait_for_artifacts(service) == [] and "draws random numbers" in service.failures[digest]
    assert service.request(unfusable_description()) is None
    assert not caplog.records and not list(tmp_path.iterdir())


def test_failed_compiler_is_logged_once(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    failing = tmp_path / "worker.py"
    failing.write_text("import sys; sys.exit('the compiler fell over')")
    monkeypatch.setattr(load_fusion_module("service"), "WORKER", failing)
    service = load_fusion_module("service").CompilationService(1, tmp_path / "cache")
    for _ in range(2):
        service.request(fusable_program().description)
        assert wait_for_artifacts(service) == []
    assert [record.getMessage() for record in caplog.records] == [
        "a graph stays interpreted: the compiler fell over"
    ]


def test_error_in_a_listener_is_logged(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    quick = tmp_path / "worker.py"
    version = load_fusion_module("description").VERSION
    quick.write_text(
        "import pathlib, sys\nout = pathlib.Path(sys.argv[2])\n(out / 'code.so').touch()\n"
        f"(out / 'convention.json').write_text('{{\"version\": {version}}}')\n"
    )
    monkeypatch.setattr(load_fusion_module("service"), "WORKER", quick)
    service = load_fusion_module("service").CompilationService(1, tmp_path / "cache")
    service.request(fusable_program().description, lambda artifact: 1 / 0)
    assert len(wait_for_artifacts(service)) == 1 and "the listener for fused code" in caplog.text


def test_no_more_subprocesses_than_allowed_and_none_after_close(tmp_path: Path, monkeypatch: Any) -> None:
    slow = tmp_path / "worker.py"
    slow.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(load_fusion_module("service"), "WORKER", slow)
    service = load_fusion_module("service").CompilationService(2, tmp_path / "cache")
    for size in range(2, 6):
        service.request(record(lambda x: x + 1, torch.ones(size)).description)
    running = [job.process for job in service._running]
    assert len(running) == 2 and all(process.poll() is None for process in running)
    service.close()
    assert all(process.poll() is not None for process in running)
    assert not list((tmp_path / "cache").iterdir())


def test_missing_compiler_warns_once_and_disables_the_service(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    service = load_fusion_module("service").CompilationService(1, tmp_path)
    with pytest.warns(UserWarning, match="needs a C\\+\\+ compiler"):
        assert service.request(fusable_program().description) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert service.request(fusable_program().description) is None


@pytest.mark.parametrize("value", ["0", "none"])
def test_zero_processes_disable_the_service_without_a_warning(
    value: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HPU_REFERENCE_FUSION_PROCESSES", value)
    monkeypatch.setenv("HPU_REFERENCE_FUSION_CACHE", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            load_fusion_module("service").CompilationService().request(fusable_program().description) is None
        )


def test_forked_child_does_not_end_subprocesses_of_its_parent(tmp_path: Path, monkeypatch: Any) -> None:
    slow = tmp_path / "worker.py"
    slow.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(load_fusion_module("service"), "WORKER", slow)
    service = load_fusion_module("service").CompilationService(1, tmp_path / "cache")
    service.request(fusable_program().description)
    child = os.fork()
    if child == 0:
        service.close()
        os._exit(0 if service.request(fusable_program().description) is None and service.poll() == [] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert service._running[0].process.poll() is None
    service.close()


def test_worker_does_not_load_the_device(tmp_path: Path) -> None:
    source = tmp_path / "description.json"
    source.write_text(load_fusion_module("description").dumps(unfusable_description()))
    done = subprocess.run(
        [sys.executable, "-v", str(FOLDER / "worker.py"), str(source), str(tmp_path / "out")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "not fusable: aten::" in done.stderr and "draws random numbers" in done.stderr
    assert (
        "import 'habana_frameworks" not in done.stderr
        and "import 'hpu_reference_fusion.fx_graph_builder'" in done.stderr
    )
