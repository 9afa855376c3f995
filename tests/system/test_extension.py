"""The documented example of an extra module passes on the CPU, and fails if the vendor's
operator is faulty.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: F401 (an import inside of pytest.warns would reset the filters)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"

#: Property that must fail -> a faulty kernel that replaces the example's CPU kernel.
FAULTS = {
    "vendor-value": "lambda x, scale: x * torch.sigmoid(x)",
    "vendor-leaves-input": "lambda x, scale: x.mul_(0.5).mul_(2).add_(1e-2) * torch.sigmoid(scale * x)",
}


def verdicts_of_example(folder: Path, *extra: str) -> dict[str, str]:
    """Run the subjects of the example on the CPU, and return the verdict of each result id."""
    # The target is a copy of target cpu without the expectations, which match subject kinds that this run
    # omits.
    text = (ROOT / "conformance" / "target" / "known" / "cpu.toml").read_text()
    (folder / "plain.toml").write_text(text.replace('name = "cpu"', 'name = "plain"'))
    command = [sys.executable, "-m", "conformance", "run", "--target", str(folder / "plain.toml")]
    command += ["--mode", "eager", "-n", "1"]
    for module in ("scaled_swish", *extra):
        command += ["--extra", module]
    path = os.pathsep.join([str(folder), str(EXAMPLES), str(ROOT)])
    variables = os.environ | {"PYTHONPATH": path, "CONFORMANCE_KINDS": "vendor"}
    subprocess.run([*command, "-o", str(folder / "out")], env=variables, capture_output=True, check=False)
    results: dict[str, Any] = json.loads((folder / "out" / "results.json").read_text())
    return {row["id"]: row["verdict"] for row in results["legs"][0]["results"]}


def test_the_example_passes(tmp_path: Path) -> None:
    dtypes = ("float32", "float16", "bfloat16")
    names = ("vendor-value", "vendor-leaves-input")
    assert verdicts_of_example(tmp_path) == {
        f"{name}/scaled_swish@{dtype}": "pass" for name in names for dtype in dtypes
    }


@pytest.mark.nightly("each case compiles an extension", every=2)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_operator_is_detected(tmp_path: Path, name: str) -> None:
    (tmp_path / "broken_swish.py").write_text(
        "import torch, scaled_swish\n"
        'kernels = torch.library.Library("vendor", "IMPL")\n'
        f'kernels.impl("scaled_swish", {FAULTS[name]}, "CPU")\n'
    )
    verdicts = verdicts_of_example(tmp_path, "broken_swish")
    assert verdicts[f"{name}/scaled_swish@float32"] == "fail"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("property", "register"),
        ("property", "find"),
        ("property", "ANY_DTYPE"),
        ("catalogue", "add_subjects"),
        ("behaviour", "behaviour"),
        ("recorder", "Recorder"),
        ("target", "Target"),
        ("target_file", "load"),
    ],
)
def test_old_import_paths_work_with_a_deprecation_warning(module: str, name: str) -> None:
    old = importlib.import_module(f"conformance.{module}")
    with pytest.warns(DeprecationWarning, match="has moved to conformance"):
        getattr(old, name)
    with warnings.catch_warnings(), pytest.raises(AttributeError):
        warnings.simplefilter("error")
        old.nothing_of_this_name  # noqa: B018
