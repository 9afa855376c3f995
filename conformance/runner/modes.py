"""Select the modes of a run: the modes that the user names, else all modes that the installed torch can
run.
"""

from __future__ import annotations

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.target.file import TargetFile


def is_mode_allowed_on_version(target: TargetFile, mode: str, torch_version: str) -> bool:
    """Return True if ``mode_builds`` of the target file allows a mode on this version of torch."""
    build = target.mode_builds.get(mode, "any")
    return build == "any" or (build == "fork-like") == installed_torch.is_fork_like(torch_version)


def selected_modes(target: TargetFile, mode_option: str | None) -> list[str]:
    """Return the modes of a run: the comma-separated modes of ``--mode``, else all modes that can run here.

    Raise UsageError if a mode does not exist, is not declared, or is named twice.
    """
    if mode_option:
        modes = mode_option.split(",")
        for mode in modes:
            target.check_mode(mode)
        if len(set(modes)) != len(modes):
            raise UsageError(f"--mode {mode_option} names a mode twice; name each once")
        return modes
    torch_version = installed_torch.version()
    modes = [mode for mode in target.modes if is_mode_allowed_on_version(target, mode, torch_version)]
    if not modes:
        raise UsageError(
            f"target {target.name!r} has no mode that runs on torch {torch_version}; install a build for "
            f"{', '.join(target.modes)}, or name a mode with --mode to see why it does not run"
        )
    return modes
