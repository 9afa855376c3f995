"""Runs the suite's command line against the tiny device, as its vendor would."""

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
def variables() -> dict[str, str]:
    """The variables of a process that has the device's package; builds its kernels if need be."""
    tinyaccel_build.build()
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


def conformance(
    folder: Path, *arguments: str, stage: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder with the device at a stage (default: complete)."""
    environment = {**variables(), **more}
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


def target(folder: Path, *lines: str, **capabilities: bool) -> str:
    """A target file for the complete device: what it has, and nothing more; ``capabilities`` change that."""
    from conformance.model.vocabulary import CAPABILITIES

    has = [
        "autograd",
        "double_backward",
        "forward_ad",
        "out_variants",
        "inplace",
        "views",
        "non_contiguous",
        "channels_last",
        "foreach",
        "functorch",
        "fake_tensors",
        "conj_neg_views",
        "asynchronous",
    ]
    declared = {word: word in has for word in CAPABILITIES} | capabilities
    text = ['schema = 1', 'name = "tiny"', 'module = "tinyaccel"', 'device = "tiny"', *lines,
            'dtypes = ["float32", "int64", "bool"]', "[capabilities]"]  # fmt: skip
    text += [f"{word} = {str(value).lower()}" for word, value in declared.items()]
    (folder / "tiny.toml").write_text("\n".join(text) + "\n")
    return "tiny.toml"


def rows(folder: Path) -> list[dict[str, Any]]:
    """The results of the one leg of a run."""
    (leg,) = json.loads((folder / "results.json").read_text())["legs"]
    found: list[dict[str, Any]] = leg["results"]
    return found
