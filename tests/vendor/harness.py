"""Run ``conformance`` commands on the tiny device, as a vendor of this device would."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.vendor import tinyaccel_build

HERE = Path(__file__).parent
GUIDE = ROOT / "docs" / "vendor-guide.md"


@functools.cache
def environment_with_device() -> dict[str, str]:
    """Return the environment of a process that can import the tiny device. Build its kernels if necessary."""
    tinyaccel_build.build_library()
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in ("TINY_STAGE", "CONFORMANCE_KINDS")
        },
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }


def run_conformance(
    folder: Path, *arguments: str, stage: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a ``conformance`` command in a folder, with the tiny device at the development stage ``stage``.

    If ``stage`` is None, the device is at its last stage. ``more``: further environment variables.
    """
    environment = {**environment_with_device(), **more}
    if stage is not None:
        environment["TINY_STAGE"] = str(stage)
    return subprocess.run(
        [sys.executable, "-m", "conformance", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def write_target(folder: Path, *lines: str, **capabilities: bool) -> str:
    """Write a target file for the tiny device, and return the name of the file. The target declares the
    features of the last stage, changed by ``capabilities``, and contains the additional ``lines``.
    """
    from conformance.model.vocabulary import CAPABILITIES

    has = [
        "accelerator",
        "autograd",
        "double_backward",
        "forward_ad",
        "out_variants",
        "inplace",
        "storage",
        "strides",
        "views",
        "non_contiguous",
        "channels_last",
        "foreach",
        "functorch",
        "fake_tensors",
        "conj_neg_views",
        "asynchronous",
    ]
    declared = {capability: capability in has for capability in CAPABILITIES} | capabilities
    text = ['schema = 1', 'name = "tiny"', 'module = "tinyaccel"', 'device = "tiny"', *lines,
            'dtypes = ["float32", "int64", "bool"]', "[capabilities]"]  # fmt: skip
    text += [f"{capability} = {str(value).lower()}" for capability, value in declared.items()]
    (folder / "tiny.toml").write_text("\n".join(text) + "\n")
    return "tiny.toml"


def result_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the result rows of a run with a single leg."""
    (leg,) = json.loads((folder / "results.json").read_text())["legs"]
    result_rows: list[dict[str, Any]] = leg["results"]
    return result_rows
