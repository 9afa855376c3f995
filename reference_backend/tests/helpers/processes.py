"""Run test programs in new Python processes, or in forks of a process that has imported torch."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

#: Prefixes of the environment variables that only the device reads, when it is loaded. A fork may still set
#: them, because its parent has imported torch but not the device.
DEVICE_PREFIXES = ("PT_", "HABANA_", "HLS_", "HPU_", "GRAPH_", "LOG_LEVEL_", "ENABLE_CONSOLE")

#: Prefixes of the variables that change how the device loads, runs or writes files.
_CHANGING = (*DEVICE_PREFIXES, "TORCH", "OMPI_")


def clean_environment(path: tuple[object, ...] = ()) -> dict[str, str]:
    """Return this process's environment variables without the variables that affect the device.

    ``PYTHONPATH`` is the module search path of this process.

    Args:
        path: entries to put before the search path, so that a test can shadow a module of the backend.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_CHANGING) and name not in ("RANK", "PYTHONPATH")
    }
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, path), *(entry for entry in sys.path if entry)])
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return environment


def run_code(
    code: str,
    *arguments: str,
    cwd: Path,
    path: tuple[object, ...] = (),
    options: tuple[str, ...] = (),
    timeout: float = 300,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter and wait for it.

    Args:
        code: the program.
        arguments: the program's ``sys.argv[1:]``.
        cwd: the working directory.
        path: see `clean_environment`.
        options: command-line options of the interpreter.
        timeout: seconds after which the program is killed.
        environment: variables to add to `clean_environment`.

    Raises:
        subprocess.TimeoutExpired: the program ran longer than `timeout`.
    """
    command = [sys.executable, *options, "-c", code, *arguments]
    # Each test writes its log to its own folder.
    variables = clean_environment(path) | {"HABANA_LOGS": str(cwd)} | environment
    if not path and may_fork(code, options, environment):
        return _run_in_fork(command, code, arguments, variables, cwd, bool(options), timeout)
    return subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=timeout)


def may_fork(code: str, options: tuple[str, ...], environment: dict[str, str]) -> bool:
    """Return whether a program cannot notice that torch was imported before the program started.

    The first statement of the program must import torch or the device, which imports torch first. The test
    may set only ``PATH`` and variables of the device. The only allowed interpreter option is ``-W ignore``.
    The program must not inspect modules, start processes or measure time.
    """
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    return (
        re.match(r"(import (os, )?(sys, )?|from )(habana_frameworks\.)?torch\b", first) is not None
        and options in ((), ("-W", "ignore"))
        and all(name == "PATH" or name.startswith(DEVICE_PREFIXES) for name in environment)
        and not re.search(
            r"sys\.modules|importlib|subprocess|multiprocessing|AUTOLOAD|perf_counter|rusage", code
        )
    )


#: Lock of the fork server, which handles one request at a time. Several threads may send requests.
_lock = threading.Lock()


@functools.cache
def _fork_server() -> subprocess.Popen[str]:
    """Start the fork server of this process. The server ends with this process."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


def _run_in_fork(
    command: list[str],
    code: str,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    cwd: Path,
    quiet: bool,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run a program in a fork of the fork server, and return a result as `subprocess.run` does."""
    with _lock:
        return _send_request(_fork_server(), command, code, arguments, variables, cwd, quiet, timeout)


def _send_request(
    server: subprocess.Popen[str],
    command: list[str],
    code: str,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    cwd: Path,
    quiet: bool,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Send one request to a fork server and return its reply."""
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in ("stdout", "stderr")}
        request = {
            "code": code,
            "arguments": arguments,
            "environment": variables,
            "cwd": str(cwd),
            "quiet": quiet,
            "timeout": timeout,
            **{name: str(file) for name, file in files.items()},
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the fork server exited with code {server.wait()} before it replied")
        output = {name: file.read_text(errors="replace") for name, file in files.items()}
    exit_code = json.loads(answer)["code"]
    if exit_code is None:
        raise subprocess.TimeoutExpired(command, timeout, output["stdout"], output["stderr"])
    return subprocess.CompletedProcess(command, exit_code, output["stdout"], output["stderr"])
