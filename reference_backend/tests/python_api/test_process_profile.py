"""Test traces that the device writes to files, for a whole process or a part of it, or keeps in memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest
import torch
from habana_frameworks.torch import low_overhead_profiler
from habana_frameworks.torch.profiler import ProfilerApi
from habana_frameworks.torch.utils import profiler

WORK = """
import torch, habana_frameworks.torch
x = torch.ones(100, device="hpu")
(x @ x).item()
"""
NAMES = ["aten::fill_.Scalar", "aten::dot", "aten::copy_ (device to host)"]


def device_row_names(path: Path) -> list[str]:
    """Return the names of the device rows in a trace file."""
    return [event["name"] for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]


def test_trace_of_a_whole_process(run_python: Any, tmp_path: Path) -> None:
    done = run_python(WORK, cwd=tmp_path, HABANA_PROFILE="1")
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.iterdir())
    assert [path.suffix for path in files] == [".hltv", ".json"]
    assert device_row_names(files[1]) == NAMES
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_configuration_names_folder_file_and_rows(run_python: Any, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"folder": str(tmp_path / "out"), "name": "mine", "rows": 2, "more": 1}))
    done = run_python(WORK, HABANA_PROFILE="1", HABANA_PROF_CONFIG=str(config), RANK="3")
    assert done.returncode == 0, done.stderr
    _, path = sorted((tmp_path / "out").iterdir())
    assert path.name.startswith("mine_rank3_")
    assert device_row_names(path) == NAMES[:2]
    assert json.loads(path.read_text())["droppedRows"] == 1


def test_an_unknown_mode_is_named(run_python: Any, tmp_path: Path) -> None:
    done = run_python(WORK, cwd=tmp_path, HABANA_PROFILE="profile_apl")
    assert "HABANA_PROFILE='profile_apl' is not a mode" in done.stderr
    assert len(list(tmp_path.iterdir())) > 0


@pytest.mark.parametrize("value", ["0", "profile_api", "profile_api_light", ""])
def test_other_values_write_no_trace(run_python: Any, tmp_path: Path, value: str) -> None:
    done = run_python(
        WORK + "import os; print(os.environ['HABANA_PROFILE'])", cwd=tmp_path, HABANA_PROFILE=value
    )
    assert done.stdout.strip() == (value or "profile_api_light"), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "warning"),
    [
        ({"HABANA_PROF_CONFIG": "missing.json"}, "HABANA_PROF_CONFIG='missing.json' was ignored"),
        ({"HABANA_PROF_CONFIG": "list.json"}, "does not contain a JSON object"),
        ({"HABANA_PROF_CONFIG": "text.json"}, "HABANA_PROF_CONFIG='text.json' was ignored"),
        ({"HABANA_PROF_CONFIG": "none.json"}, "HABANA_PROF_CONFIG='none.json' was ignored"),
        ({"HABANA_PROF_CONFIG": "proc.json"}, "could not be written"),
        ({"HABANA_PROF_CONFIG": "full.json"}, "could not be written"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_each_failure_costs_one_warning(
    run_python: Any, tmp_path: Path, variables: dict[str, str], warning: str
) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "text.json").write_text('{"rows": "many"}')
    (tmp_path / "none.json").write_text('{"rows": 0}')
    (tmp_path / "proc.json").write_text('{"folder": "/proc/nowhere"}')
    (tmp_path / "full.json").write_text('{"folder": "/dev", "name": "full/x"}')
    done = run_python(WORK + "print('done')", cwd=tmp_path, HABANA_PROFILE="1", **variables)
    assert done.returncode == 0
    assert done.stdout.strip() == "done"
    assert done.stderr.count("RuntimeWarning") == 1
    assert warning in done.stderr


def test_a_forked_child_writes_no_file(run_python: Any, tmp_path: Path) -> None:
    code = WORK + (
        "import os, sys\nchild = os.fork()\nif child == 0:\n    sys.exit(0)\nprint(os.waitpid(child, 0)[1])"
    )
    done = run_python(code, cwd=tmp_path, HABANA_PROFILE="1")
    assert done.stdout.strip() == "0", done.stderr
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_trace_of_a_part_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert profiler._stop_profiler() == []
    x = torch.ones(3, device="hpu")
    profiler._setup_profiler()
    profiler._start_profiler()
    x + 1
    path, _ = profiler._stop_profiler()
    x * 2
    assert device_row_names(path) == ["aten::add.Tensor"]
    with pytest.warns(FutureWarning, match="use torch.profiler"):
        ProfilerApi.setup()
        ProfilerApi.start()
        x * 2
        ProfilerApi.stop()
    assert device_row_names(path) == ["aten::mul.Tensor"]


def test_rows_are_kept_until_they_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_LOGS", str(tmp_path / "logs"))
    lop = low_overhead_profiler.profiler
    x = torch.ones(3, device="hpu")
    lop.stop()
    for operator in (torch.sin, torch.cos):
        lop.start()
        operator(x)
        lop.stop()
    torch.exp(x)
    assert not (tmp_path / "logs").exists()
    first, second = lop.flush()
    assert (device_row_names(first), device_row_names(second)) == (["aten::sin"], ["aten::cos"])
    assert lop.flush() == []


@pytest.mark.parametrize(
    ("flags", "files"),
    [
        (["TRACES"], {"low_overhead_profile"}),
        (["METRICS"], {"low_overhead_metrics"}),
        (["METRICS", "TRACES"], {"low_overhead_metrics", "low_overhead_profile"}),
    ],
)
def test_flags_collect_for_the_whole_process(
    run_python: Any, tmp_path: Path, flags: list[str], files: set[str]
) -> None:
    variables = {f"PT_HPU_ENABLE_LOP_{flag}_COLLECTION": "1" for flag in flags}
    done = run_python(WORK, HABANA_LOGS=str(tmp_path), **variables)
    assert done.returncode == 0, done.stderr
    assert {"_".join(path.name.split("_")[:3]) for path in tmp_path.iterdir()} == files
    for path in tmp_path.iterdir():
        if "metrics" in path.name:
            totals = json.loads(path.read_text())
            assert {name: total["calls"] for name, total in totals.items()} == dict.fromkeys(NAMES, 1)
            assert totals["aten::copy_ (device to host)"]["bytes"] == 4
        else:
            assert device_row_names(path) == NAMES


def test_metrics_that_cannot_be_written_cost_a_warning(run_python: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "logs")
    done = run_python(WORK, HABANA_LOGS=folder, PT_HPU_ENABLE_LOP_METRICS_COLLECTION="1")
    assert done.returncode == 0
    assert done.stderr.count("the metrics of the device could not be written to") == 1


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_arrows_lead_from_operators_to_rows(run_python: Any, tmp_path: Path, name: str) -> None:
    script = (
        "import torch, habana_frameworks.torch\n"
        "from torch.profiler import profile, ProfilerActivity as Kind\n"
        "x = torch.ones(4, 4, device='hpu')\nwith profile(activities=[Kind.CPU, Kind.HPU]) as found:\n"
        f"    (x @ x).relu()\nfound.export_chrome_trace({str(tmp_path / name)!r})"
    )
    done = run_python(script, PT_TB_ENABLE_FLOW_EVENTS="true")
    assert done.returncode == 0, done.stderr
    data = (tmp_path / name).read_bytes()
    events = json.loads(gzip.decompress(data) if name.endswith("gz") else data)["traceEvents"]
    ends = {(event["ph"], event["id"]): event for event in events if event["ph"] in "sf"}
    rows = [event for event in events if event.get("cat") == "hpu_op"]
    hosts = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op"}
    assert len(ends) == 2 * len(rows) == 4
    for number, row in enumerate(rows, 1):
        begin, end = ends["s", number], ends["f", number]
        host = hosts[row["args"]["External id"]]
        assert [begin[key] for key in ("pid", "tid", "ts")] == [host[key] for key in ("pid", "tid", "ts")]
        assert [end[key] for key in ("pid", "tid", "ts")] == [row[key] for key in ("pid", "tid", "ts")]
        assert begin["ts"] <= end["ts"]


def test_recordings_and_forks_do_not_change_the_collection(run_python: Any, tmp_path: Path) -> None:
    script = WORK + (
        "import os, sys\nlop = habana_frameworks.torch.low_overhead_profiler.profiler\n"
        "lop.start(); x.neg(); lop.stop(); lop.flush()\nx.exp()\n"
        "if os.fork() == 0:\n    sys.exit(0)\nos.wait()"
    )
    done = run_python(script, HABANA_LOGS=str(tmp_path), PT_HPU_ENABLE_LOP_METRICS_COLLECTION="1")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("low_overhead_metrics_*.json")
    assert list(json.loads(path.read_text())) == [*NAMES, "aten::neg", "aten::exp"]


def test_a_trace_that_is_not_json_is_unchanged(run_python: Any, tmp_path: Path) -> None:
    script = (
        "import torch, habana_frameworks.torch\n"
        "from torch.profiler import profile, ProfilerActivity as Kind, record_function\n"
        "with profile(activities=[Kind.CPU, Kind.HPU]) as found:\n"
        "    with record_function('a\"b'):\n        torch.ones(3, device='hpu').neg()\n"
        f"found.export_chrome_trace({str(tmp_path / 'trace.json')!r})"
    )
    done = run_python(script, PT_TB_ENABLE_FLOW_EVENTS="true")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "trace.json").stat().st_size > 0
    assert "no arrows were added to" in done.stderr or "ac2g" in (tmp_path / "trace.json").read_text()
