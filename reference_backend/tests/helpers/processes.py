"""Fresh Python processes that import the device as the tests do."""

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

#: Variables that only the device reads, when it is loaded: a fork of a process with torch may get them late.
OF_THE_DEVICE = ("PT_", "HABANA_", "HLS_", "HPU_", "GRAPH_", "LOG_LEVEL_", "ENABLE_CONSOLE")

#: Variables that would change how the device loads, runs or writes files.
_CHANGING = (*OF_THE_DEVICE, "TORCH", "OMPI_")


def clean_environment(path: tuple[object, ...] = ()) -> dict[str, str]:
    """Variables of this process without those that concern the device, and with its search path.

    Args:
        path: entries that come before all others, so that a test can shadow a module of the backend.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_CHANGING) and name not in ("RANK", "PYTHONPATH")
    }
    kept["PYTHONPATH"] = os.pathsep.join([*map(str, path), *(entry for entry in sys.path if entry)])
    kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return kept


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
        arguments: its ``sys.argv[1:]``.
        cwd: the folder that it runs in.
        path: see `clean_environment`.
        options: of the interpreter.
        timeout: seconds.
        environment: variables on top of `clean_environment`.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    command = [sys.executable, *options, "-c", code, *arguments]
    # The log of a test goes to its own folder.
    variables = clean_environment(path) | {"HABANA_LOGS": str(cwd)} | environment
    if not path and may_fork(code, options, environment):
        return _forked(command, code, arguments, variables, cwd, bool(options), timeout)
    return subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=timeout)


def may_fork(code: str, options: tuple[str, ...], environment: dict[str, str]) -> bool:
    """Return whether a program cannot see that torch was imported before it started.

    It imports torch, or the device, which begins with it, before anything else, and asks for no variables but
    the device's and the path of programs, for no options of the interpreter, and not how modules are
    imported.
    """
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    return (
        re.match(r"(import (os, )?(sys, )?|from )(habana_frameworks\.)?torch\b", first) is not None
        and options in ((), ("-W", "ignore"))
        and all(name == "PATH" or name.startswith(OF_THE_DEVICE) for name in environment)
        and not re.search(
            r"sys\.modules|importlib|subprocess|multiprocessing|AUTOLOAD|perf_counter|rusage", code
        )
    )


#: One request at a time: tests may start processes from several threads.
_lock = threading.Lock()


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start the fork server of this process; it ends with it."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


def _forked(
    command: list[str],
    code: str,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    cwd: Path,
    quiet: bool,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run a program in a fork of a process that has imported torch; as `subprocess.run`."""
    with _lock:
        return _ask(_server(), command, code, arguments, variables, cwd, quiet, timeout)


def _ask(
    server: subprocess.Popen[str],
    command: list[str],
    code: str,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    cwd: Path,
    quiet: bool,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Send one request to a fork server and wait for its answer."""
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
            raise RuntimeError(f"the fork server ended with code {server.wait()}; run the test without it")
        output = {name: file.read_text(errors="replace") for name, file in files.items()}
    exit_code = json.loads(answer)["code"]
    if exit_code is None:
        raise subprocess.TimeoutExpired(command, timeout, output["stdout"], output["stderr"])
    return subprocess.CompletedProcess(command, exit_code, output["stdout"], output["stderr"])
