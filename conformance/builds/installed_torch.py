"""The installed build of torch, identified without importing it: the runner never loads a backend."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import UsageError


def version() -> str:
    """Return the version of the torch that this Python would import, local label included."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise UsageError("torch is not installed; install the build of torch that the backend is for")
    try:
        text = (Path(spec.origin).parent / "version.py").read_text()
    except OSError as error:
        raise UsageError(f"torch has no readable version.py ({error.strerror}); install it again") from None
    match = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text, re.M)
    if match is None:
        raise UsageError(f"{spec.origin} does not say which version it is; install torch again")
    return match.group(1)


def is_fork_like(torch_version: str) -> bool:
    """Return True for the version of a fork-like build: its local label begins with ``git`` or ``hpu``."""
    return torch_version.partition("+")[2].startswith(("git", "hpu"))


def folder_label(torch_version: str) -> str:
    """Write a version in a form that fits the name of a folder."""
    return re.sub(r"[^A-Za-z0-9.+]", "_", torch_version)


def leg_name(torch_version: str, mode: str) -> str:
    """Name a leg by its build and mode."""
    return f"{folder_label(torch_version)}-{mode}"


#: Variables that change what torch computes or how; no others are recorded.
VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PT_HPU_LAZY_MODE",
    "PYTHONHASHSEED",
    "TORCHINDUCTOR_FREEZING",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
)
#: The form of their values, which excludes paths and sentences.
_VALUE = re.compile(r"[A-Za-z0-9_.,:+-]{0,64}")


def recorded_variables(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the allow-list that are set to a plain value."""
    return {
        name: variables[name] for name in VARIABLES if name in variables and _VALUE.fullmatch(variables[name])
    }
