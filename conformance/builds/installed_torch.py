"""Identify the installed torch without importing it, because an import could load the backend into the
runner.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path

from conformance.errors import UsageError


def version() -> str:
    """Return the version of the installed torch with its local label, without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise UsageError("torch is not installed; install the build of torch that the backend was built for")
    try:
        text = (Path(spec.origin).parent / "version.py").read_text()
    except OSError as error:
        raise UsageError(f"torch has no readable version.py ({error.strerror}); install it again") from None
    match = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text, re.M)
    if match is None:
        raise UsageError(f"{spec.origin} has no __version__ in version.py; install torch again")
    return match.group(1)


def is_fork_like(torch_version: str) -> bool:
    """Return True if the local label of a version begins with ``git`` or ``hpu``, as in fork-like builds."""
    return torch_version.partition("+")[2].startswith(("git", "hpu"))


def folder_safe_version(torch_version: str) -> str:
    """Return a version with all characters replaced that the name of a folder must not contain."""
    return re.sub(r"[^A-Za-z0-9.+]", "_", torch_version)


def leg_name(torch_version: str, mode: str) -> str:
    """Return the name of a leg: ``VERSION-MODE``."""
    return f"{folder_safe_version(torch_version)}-{mode}"


#: Environment variables that change results or the execution of torch. Results files record their values.
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
#: Matches the values that may be recorded. Values with slashes or spaces, such as paths, do not match.
_VALUE = re.compile(r"[A-Za-z0-9_.,:+-]{0,64}")


def environment_variables_to_record(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables in ``VARIABLES`` that are set to a value that may be recorded."""
    return {
        name: variables[name] for name in VARIABLES if name in variables and _VALUE.fullmatch(variables[name])
    }
