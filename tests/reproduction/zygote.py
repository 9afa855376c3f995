"""Runs scripts one after the other, each in a fork of this process, which has loaded torch alone.

Reads JSON lines with ``path``, ``arguments`` and ``variables``; answers each with ``code`` and ``output``.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import warnings

import torch  # noqa: F401  (what takes long)


def alone(path: str, arguments: list[str], variables: dict[str, str], output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(variables)
    warnings.simplefilter("ignore")
    for name in ("conformance", "expecttest"):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.argv = [path, *arguments]
    code = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                alone(asked["path"], asked["arguments"], asked["variables"], output.fileno())
            _, status = os.waitpid(child, 0)
            output.seek(0)
            text = output.read().decode(errors="replace")
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"code": code, "output": text}), flush=True)


if __name__ == "__main__":
    main()
