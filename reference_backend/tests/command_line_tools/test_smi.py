"""Test hl-smi: the output formats that programs parse, and the list of processes that use the device."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import habana_frameworks.torch as ht
import pytest

PROGRAM = """
import sys, torch, habana_frameworks.torch
x = torch.ones(8 << 20, device="hpu")  # 32 MiB
y = torch.ones(8 << 20, device="hpu")
del y
print("ready", flush=True)
for command in sys.stdin:
    if command.strip() == "name":
        import ctypes
        ctypes.CDLL(None).prctl(15, b"a\\nb c", 0, 0, 0)
        print("named", flush=True)
        continue
    while True:
        x + x
"""


@pytest.fixture
def process_records_folder(tmp_path: Path) -> Path:
    """Return the path at which the device creates the folder of its process records."""
    return tmp_path / "state"


@pytest.fixture
def device_process(process_records_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that uses module 3 (one of the eight Gaudi devices of the node)."""
    environment = os.environ | {"HPU_REFERENCE_STATE_DIR": str(process_records_folder), "HLS_MODULE_ID": "3"}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()


def test_version_has_the_format_that_programs_parse(smi: Any) -> None:
    completed = smi("-v")
    assert completed.returncode == 0
    assert "Habana" in completed.stdout
    assert re.search(r"hl-([\d\.]+)", completed.stdout)[1] == ht.__version__
    assert re.search(r"fw-([\d\.]+)", completed.stdout)
    assert "hl-1.22.0-fw" in smi("-v", HPU_REFERENCE_SMI_VERSION="1.22.0").stdout


@pytest.mark.parametrize(("name", "family"), [("GAUDI", "-"), ("GAUDI2", "2"), ("GAUDI3", "3")])
def test_list_shows_families_and_modules(smi: Any, name: str, family: str) -> None:
    output_text = smi("-L", HPU_REFERENCE_DEVICE_NAME=name).stdout
    assert set(re.findall(r"hl-gaudi([\d\-])", output_text)) == {family}
    assert re.findall(r"Module ID\s+:\s+(\d+)", output_text) == [str(module) for module in range(8)]


def test_table_shows_the_driver_version_and_the_modules(smi: Any, process_records_folder: Path) -> None:
    lines = smi(
        HPU_REFERENCE_STATE_DIR=str(process_records_folder), ENABLE_CONSOLE="true"
    ).stdout.splitlines()
    assert lines[2].replace(" ", "").split(":")[1][:-1].split("-")[0] == ht.__version__
    assert {len(line) for line in lines} == {79}
    rows = [
        line for line in lines if re.match(r"\|\s+\d+\s+HL-\S+\s+N/A\s+\|\s*\d{4}:\w\w:00\.0\s+N/A \|", line)
    ]
    assert len(rows) == 8


def test_queries_are_csv(smi: Any) -> None:
    assert smi("-Q", "module_id", "-f", "csv,noheader").stdout.split() == [str(module) for module in range(8)]
    lines = smi("-Q", "index,module_id", "-f", "csv").stdout.splitlines()
    assert lines[:2] == ["index, module_id", "0, 0"]
    assert len(smi("--query-gpu=name", "--format=csv,noheader").stdout.splitlines()) == 8
    header, row = smi("-Q", "memory.total,power.draw", "-f", "csv", "-i", "2").stdout.splitlines()
    assert header == "memory.total [MiB], power.draw [W]"
    assert re.fullmatch(r"\d+ MiB, \d+ W", row)
    assert re.fullmatch(
        r"\d+, \d+\n", smi("-Q", "memory.total,power.draw", "-f", "csv,noheader,nounits", "-i", "2").stdout
    )


def test_every_documented_field_exists(smi: Any) -> None:
    fields = (
        "timestamp,name,bus_id,driver_version,temperature.aip,module_id,utilization.aip,memory.total,memory.free,"
        "memory.used,index,serial,uuid,power.draw,ecc.mode.current,ecc.errors.uncorrected.aggregate.total,"
        "stats.violation.power,stats.violation.thermal"
    )
    completed = smi("-Q", fields, "-f", "csv,noheader", "-i", "0")
    assert completed.returncode == 0, completed.stderr
    assert len(completed.stdout.split(", ")) == len(fields.split(","))


def test_details_are_printed_by_section(smi: Any) -> None:
    whole = smi("-q", "-i", "4").stdout
    assert re.search(r"Module ID\s+: 4", whole)
    some = smi("-q", "-d", "memory,PIDS", "-i", "4").stdout
    assert "Total" in some
    assert "Module ID" not in some


@pytest.mark.parametrize("way", ["-i=5", "-i=0000:15:00.0", "-i=15:00.0", "-i=SIM00005"])
def test_a_module_has_several_ids(smi: Any, way: str) -> None:
    assert smi("-Q", "index", "-f", "csv,noheader", *way.split("=")).stdout == "5\n"


def test_live_processes_are_shown_with_their_memory(
    smi: Any, process_records_folder: Path, device_process: Any
) -> None:
    def figures(*arguments: str) -> str:
        return smi(*arguments, HPU_REFERENCE_STATE_DIR=str(process_records_folder)).stdout

    assert (
        figures("-Q", "memory.used", "-f", "csv,noheader,nounits").split() == ["0"] * 3 + ["32"] + ["0"] * 4
    )
    (row,) = [line for line in figures().splitlines() if str(device_process.pid) in line]
    assert re.fullmatch(rf"\|\s+3\s+{device_process.pid}\s+C\s+python\S*\s+32MiB\s+\|", row)
    assert f"Process ID {device_process.pid}" in figures("-q", "-i", "3")
    device_process.stdin.write("work\n")
    device_process.stdin.flush()
    busy = max(
        int(figures("-Q", "utilization.aip", "-f", "csv,noheader,nounits", "-i", "3")) for _ in range(5)
    )
    assert busy > 30
    assert figures("-Q", "utilization.aip", "-f", "csv,noheader", "-i", "2") == "0 %\n"


def test_exited_and_killed_processes_are_not_listed(
    smi: Any, process_records_folder: Path, device_process: Any
) -> None:
    assert [path.name for path in process_records_folder.iterdir()] == [str(device_process.pid)]
    device_process.kill()
    device_process.wait()
    assert (
        smi(
            "-Q",
            "memory.used",
            "-f",
            "csv,noheader,nounits",
            HPU_REFERENCE_STATE_DIR=str(process_records_folder),
        ).stdout.split()
        == ["0"] * 8
    )
    code = "import torch, habana_frameworks.torch\ntorch.ones(3, device='hpu')"
    environment = os.environ | {"HPU_REFERENCE_STATE_DIR": str(process_records_folder)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True)
    assert (
        list(process_records_folder.iterdir()) == []
    )  # the subprocess removed two records: its own and the record of the killed process


def test_a_process_may_have_any_name(smi: Any, process_records_folder: Path, device_process: Any) -> None:
    device_process.stdin.write("name\n")
    device_process.stdin.flush()
    assert device_process.stdout.readline() == "named\n"
    completed = smi(HPU_REFERENCE_STATE_DIR=str(process_records_folder))
    assert completed.returncode == 0, completed.stderr
    (row,) = [line for line in completed.stdout.splitlines() if str(device_process.pid) in line]
    assert "a?b c" in row


def test_state_folder_that_cannot_be_created_is_ignored(smi: Any, run_python: Any) -> None:
    code = "import torch, habana_frameworks.torch\nprint(torch.ones(3, device='hpu').sum().item())"
    assert run_python(code, HPU_REFERENCE_STATE_DIR="/proc/nowhere").stdout.strip() == "3.0"
    assert smi("-L", HPU_REFERENCE_STATE_DIR="/proc/nowhere").returncode == 0


def test_damaged_records_are_ignored(smi: Any, process_records_folder: Path, device_process: Any) -> None:
    record = (process_records_folder / str(device_process.pid)).read_bytes()
    (process_records_folder / "short").write_bytes(record[:30])
    (process_records_folder / "long").write_bytes(record * 2)
    (process_records_folder / "other").write_bytes(b"\xff" * 64)
    (process_records_folder / "far").write_bytes(record[:24] + (99).to_bytes(8, "little") + record[32:])
    os.mkfifo(process_records_folder / "pipe")
    (process_records_folder / "zeros").symlink_to("/dev/zero")
    (process_records_folder / "old").write_bytes(
        record[:16] + bytes(8) + record[24:]
    )  # the record of a process with the same id and a different start time
    completed = smi(HPU_REFERENCE_STATE_DIR=str(process_records_folder))
    assert completed.returncode == 0
    assert completed.stdout.count(str(device_process.pid)) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-Q", "speed"), "the field 'speed' does not exist"),
        (("-Q", "name", "-f", "json"), "the format 'json' is unknown"),
        (("-i", "8"), "no module has the id '8'"),
        (("-q", "-d", "FANS"), "the section 'FANS' does not exist"),
    ],
    ids=str,
)
def test_invalid_argument_is_one_sentence(smi: Any, arguments: tuple[str, ...], sentence: str) -> None:
    done = smi(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"hl-smi: {sentence}")
    assert len(done.stderr.splitlines()) == 1


def test_loop_option_repeats_until_interrupted(hlml_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(hlml_path.parents[1])}
    command = [
        sys.executable,
        "-m",
        "hpu_reference_tools.smi",
        "-Q",
        "index",
        "-f",
        "csv",
        "-i",
        "1",
        "-l",
        "0.05",
    ]
    # If the test run ignores SIGINT (as in the background), its child processes would ignore SIGINT too.
    restore_sigint = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=restore_sigint
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert lines == ["index\n", "1\n"] * 3


def test_closed_pipe_is_not_an_error(hlml_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(hlml_path.parents[1])}
    command = f"{sys.executable} -m hpu_reference_tools.smi -l 0.01 | head -1"
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
