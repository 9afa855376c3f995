"""Run a function of a test file on several ranks, each in its own process.

The process is a fork of a process that has imported torch (``rank_server.py``), or a new interpreter.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from helpers.processes import DEVICE_PREFIXES


@dataclass
class FinishedRank:
    """The exit code and the output of a finished rank. The output includes standard error."""

    code: int
    text: str


def run_ranks(
    file: Path,
    function: str,
    size: int,
    rendezvous_file: Path,
    *,
    kill_after: float,
    timeout: float,
    environment: dict,
) -> list[FinishedRank]:
    """Run a function of a test file on each rank of an initialised process group.

    Args:
        file: the test file.
        function: name of a function in that file. Its arguments are the rank and the world size.
        size: number of ranks.
        rendezvous_file: path of a file that does not exist yet, through which the ranks find each other.
        kill_after: seconds after which the ranks are killed.
        timeout: seconds that a collective may take.
        environment: variables to add to the environment of this process.

    Returns:
        The finished ranks, by rank.
    """
    environments = [
        {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            **environment,
        }
        for rank in range(size)
    ]
    arguments = [
        [str(file), function, str(rank), str(size), str(rendezvous_file), str(timeout)]
        for rank in range(size)
    ]
    # Torch reads all other variables when it is imported, so they require new interpreters.
    if all(name.startswith((*DEVICE_PREFIXES, "TEST_")) for name in environment):
        return _run_in_forks(arguments, environments, kill_after)
    return _run_in_interpreters(arguments, environments, kill_after)


@functools.cache
def _rank_server() -> subprocess.Popen[str]:
    """Start the rank server of this process. The server ends with this process."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("rank_server.py"))],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


def _run_in_forks(
    arguments: list[list[str]], environments: list[dict[str, str]], kill_after: float
) -> list[FinishedRank]:
    """Run ranks as forks of the rank server."""
    server = _rank_server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, str(rank)) for rank in range(len(arguments))]
        request = {
            "arguments": arguments,
            "environments": environments,
            "outputs": [str(output) for output in outputs],
            "kill_after": kill_after,
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the rank server exited with code {server.wait()} before it replied")
        texts = [output.read_text(errors="replace") for output in outputs]
    ended = []
    for code, text in zip(json.loads(answer)["codes"], texts, strict=True):
        killed = f"\nkilled after {kill_after} s" if code is None else ""
        ended.append(FinishedRank(-9 if code is None else code, text + killed))
    return ended


def _run_in_interpreters(
    arguments: list[list[str]], environments: list[dict[str, str]], kill_after: float
) -> list[FinishedRank]:
    """Run each rank in a new interpreter."""
    processes = []
    for rank_arguments, variables in zip(arguments, environments, strict=True):
        command = [sys.executable, "-m", "helpers.rank_main", *rank_arguments]
        processes.append(
            subprocess.Popen(
                command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    end = time.monotonic() + kill_after
    ended = []
    for process in processes:
        try:
            text, _ = process.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            for running in processes:
                running.kill()
            text, _ = process.communicate()
            text += f"\nkilled after {kill_after} s"
        ended.append(FinishedRank(process.returncode, text))
    return ended
